"""Runs the contract of blobs, and a whole server, on an S3-compatible server that nobody here wrote.

    python3 tests/s3/run.py

Installs the server first (moto, from `requirements.txt`), outside the checkout, and runs it on
loopback. Exits with 1 if it does not install, does not start, or a test fails.
"""

from __future__ import annotations

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

PATIENCE = 60.0
"""Seconds for the server to answer."""

BUCKET = "outlast-test"


@contextlib.contextmanager
def serving(python: Path) -> Iterator[str]:
    """Runs the server on loopback with an empty bucket, and ends it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="outlast-s3-") as folder:
        log = Path(folder) / "server.log"
        command = [str(python.parent / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
        environment = {"HOME": folder, "PATH": os.environ["PATH"]}
        with log.open("wb") as out:
            process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
        try:
            url = f"http://127.0.0.1:{port}"
            make_bucket(url, process, log)
            yield url
        finally:
            process.kill()
            process.wait()


def make_bucket(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Makes the bucket as soon as the server answers."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        request = urllib.request.Request(f"{url}/{BUCKET}", method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    sys.exit(f"the S3 server does not answer:\n{log.read_text()}")


def main() -> None:
    listed = HERE / "requirements.txt"
    folder = install.cache()
    folder.mkdir(parents=True, exist_ok=True)
    install.environment(folder / "s3", ["-r", str(listed)], listed.read_text())
    tests = ["cargo", "nextest", "run", "--locked", "--run-ignored", "only"]
    with serving(folder / "s3" / "bin" / "python") as url:
        environment = {**os.environ, "OUTLAST_TEST_S3": url}
        only = ["-p", "outlast-blobs", "-p", "outlast-server", "-E", "test(s3)"]
        code = subprocess.run([*tests, *only], check=False, env=environment).returncode
    sys.exit(code)


if __name__ == "__main__":
    main()
