"""Has schemathesis ask a server everything that its own OpenAPI document describes.

    python3 tests/schema/run.py --binary target/debug/outlast [--examples N] [--seed N]

Installs schemathesis first, outside the checkout. Exits with 1 if it does not install, if it finds
something, if an operation of the document was not tried, or if the server is not whole afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "sdk"))

import install  # noqa: E402
import scene  # noqa: E402
import server  # noqa: E402

MANAGERS = ("APT", "CARGO", "GEM", "GO", "NPM", "PIP")


def settings(empty: str) -> dict[str, str]:
    """Returns settings of a server that asks nobody: packages come from a folder where there are none."""
    folders = {f"OUTLAST__HANDS__PACKAGES__{name}": empty for name in MANAGERS}
    return {**server.QUICK_RETRIES, **folders, "OUTLAST__HANDS__MOST": "16"}


LIMIT = 900
"""Seconds after which a run that does not end is ended."""

NEVER_DONE = {
    "POST /v1/sessions/{session_id}/threads/{thread_id}/archive": "the primary thread is never archived",
    "POST /outlast/v1/brains/v1/messages": "tokens of brains are given to nobody outside yet",
    "POST /outlast/v1/brains/v1/messages/count_tokens": "the same",
}
"""Operations that never succeed here, with the reason."""


def schemathesis() -> Path:
    """Installs it; returns its command."""
    listed = HERE / "requirements.txt"
    folder = install.cache()
    folder.mkdir(parents=True, exist_ok=True)
    install.environment(folder / "schema", ["-r", str(listed)], listed.read_text())
    return folder / "schema" / "bin" / "schemathesis"


def operations(document: dict) -> set[str]:
    """Returns the operations as schemathesis calls them."""
    paths = document["paths"].items()
    return {f"{method.upper()} {path}" for path, item in paths for method in item if method != "parameters"}


def play(command: Path, given: argparse.Namespace, outlast: server.Server) -> list[str]:
    """Runs schemathesis; returns what is wrong."""
    asks = scene.Client(outlast.url, outlast.key)
    document = asks.get("/openapi.json")
    with tempfile.TemporaryDirectory(prefix="outlast-schema-") as name:
        folder = Path(name)
        known, counted = folder / "openapi.json", folder / "counted.json"
        kept = asks.keys()
        there = scene.Scene(asks)
        known.write_text(there.filled(json.dumps(document)))
        configuration = (HERE / "schemathesis.toml").read_text() + there.configuration()
        (folder / "schemathesis.toml").write_text(configuration)
        words = [str(command), "--no-color", "--config-file", str(folder / "schemathesis.toml"), "run", str(known)]
        words += ["--url", outlast.url, "--seed", str(given.seed), "--max-examples", str(given.examples)]
        words += ["--header", f"x-api-key: {outlast.key}"]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": name,
            "SCHEMATHESIS_HOOKS": "hooks",
            "PYTHONPATH": str(HERE),
            "OUTLAST_SCHEMA_COUNTED": str(counted),
            "OUTLAST_SCHEMA_KEPT": ",".join(kept),
            "OUTLAST_SCHEMA_PARENTS": json.dumps(there.parents()),
        }
        code = subprocess.run(words, check=False, cwd=name, env=environment, timeout=LIMIT).returncode
        wrong = [] if code == 0 else [f"schemathesis ended with {code}"]
        answers = json.loads(counted.read_text()) if counted.exists() else {}
    return wrong + judged(operations(document), answers) + whole(asks, outlast)


def judged(described: set[str], answers: dict[str, dict[str, int]]) -> list[str]:
    """Says which operations were not tried, and which never came to anything."""
    wrong = []
    for operation in sorted(described):
        statuses = answers.get(operation, {})
        done = any(status.startswith("2") for status in statuses)
        print(f"{sum(statuses.values()):6} {operation}: {dict(sorted(statuses.items()))}")
        if not statuses:
            wrong.append(f"{operation} was not tried")
        elif done == (operation in NEVER_DONE):
            wrong.append(f"{operation} {'succeeded' if done else 'never succeeded'}")
        wrong += [f"{operation} answered {status}" for status in statuses if status.startswith("5")]
    print(f"{sum(sum(one.values()) for one in answers.values())} requests to {len(described)} operations")
    return wrong


def whole(asks: scene.Client, outlast: server.Server) -> list[str]:
    """Says what is wrong with the server afterwards."""
    wrong = []
    if asks.get("/readyz") != {"status": "ok"}:
        wrong.append("the server is not ready any more")
    stuck = asks.get("/outlast/v1/diagnosis")
    wrong += [f"{one['session_id']} is stuck" for one in stuck["sessions"] if one["stuck"]]
    panics = [line for line in outlast.log.read_text(errors="replace").splitlines() if "panicked" in line]
    return wrong + panics


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, required=True, help="the binary `outlast`")
    parser.add_argument("--examples", type=int, default=12, help="bodies for each operation and phase (12)")
    parser.add_argument("--seed", type=int, default=1, help="what chance follows from (1)")
    given = parser.parse_args()
    command = schemathesis()
    with tempfile.TemporaryDirectory(prefix="outlast-schema-") as empty:
        os.chmod(empty, 0o755)
        with server.running(given.binary, settings(empty)) as outlast:
            wrong = play(command, given, outlast)
    for one in wrong:
        print(f"wrong: {one}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
