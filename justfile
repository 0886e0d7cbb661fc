# The steps of CI, by the same names: `just lint`, `just clients`. `scripts/test` does not need just.

# Everything that CI runs.
ci:
    ./.ci/run

# Formatting, lints, documentation.
check: format lint docs

# Unit tests, property tests, whole servers, doctests.
test: unit doctests

format:
    scripts/test format

lint:
    scripts/test lint

docs:
    scripts/test docs

unit:
    scripts/test unit

doctests:
    scripts/test doctests

# The official clients against a real server.
clients:
    scripts/test install build clients compatibility readme

# schemathesis over the API's own description.
schema:
    scripts/test build schema

# A small real model on the CPU.
model:
    scripts/test install build model

# A whole session from the command line.
demo:
    scripts/demo

# docs/compatibility.md and the table of README.md, from the last run of the clients.
compatibility:
    python3 tests/sdk/report.py --results "${CARGO_TARGET_DIR:-${OUTLAST_CACHE:-$HOME/.cache/outlast}/target}/sdk-results"
