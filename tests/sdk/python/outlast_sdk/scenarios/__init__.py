"""One module per part of the API."""
