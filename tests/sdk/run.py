"""Plays every scenario through every client, and keeps the results.

    python3 tests/sdk/run.py --binary target/debug/outlast --out results

Each client is installed by `tests/sdk/install.py` before. Exits with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path

import install
import plan
import server

HERE = Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Client:
    """One client in one mode."""

    name: str
    command: list[str]
    folder: Path


def clients(cache: Path) -> list[Client]:
    """Returns every client that the scenarios are played through."""
    found = []
    for version in install.PYTHON:
        python = str(install.python(cache, version))
        for mode in ("async", "sync"):
            command = [python, "-m", "outlast_sdk", "--mode", mode]
            found.append(Client(f"python-{version}-{mode}", command, HERE / "python"))
    command = [str(install.node(cache)), "main.mjs"]
    found.append(Client(f"typescript-{install.TYPESCRIPT}", command, HERE / "typescript"))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, required=True, help="the binary `outlast`")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--cache", type=Path, default=install.cache())
    parser.add_argument("--client", default="", help="only clients that begin with this")
    parser.add_argument("--only", default="", help="only scenarios that begin with this")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    plan.write(given.out / "plan.json")
    failed = []
    for client in clients(given.cache):
        if not client.name.startswith(given.client):
            continue
        began = time.monotonic()
        with server.running(given.binary, server.QUICK_RETRIES) as outlast:
            code = play(client, outlast, given)
        print(f"== {client.name}: exit code {code}, {time.monotonic() - began:.0f} s", flush=True)
        if code != 0:
            failed.append(client.name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def play(client: Client, outlast: server.Server, given: argparse.Namespace) -> int:
    out = given.out.resolve() / f"{client.name}.jsonl"
    out.unlink(missing_ok=True)
    listed = given.out.resolve() / "plan.json"
    command = [*client.command, "--plan", str(listed), "--out", str(out), "--only", given.only]
    # None of the caller's keys or addresses may reach a client.
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environment = {**keep, "OUTLAST_TEST_URL": outlast.url, "OUTLAST_TEST_KEY": outlast.key}
    return subprocess.run(command, cwd=client.folder, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
