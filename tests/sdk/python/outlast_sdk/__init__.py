"""Scenarios that drive Outlast through the official Python client, unmodified."""
