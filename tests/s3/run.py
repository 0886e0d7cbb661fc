"""Runs the contract of blobs, and a whole server, on an S3-compatible server that nobody here wrote.

    python3 tests/s3/run.py

Installs the server first (moto, from `requirements.txt`), outside the checkout, and runs it on
loopback. Exits with 1 if it does not install, does not start, or a test fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "sdk"))

import guest  # noqa: E402
import install  # noqa: E402

PATIENCE = 60.0
"""Seconds for the server to answer."""

BUCKET = "outlast-test"


def main() -> None:
    listed = HERE / "requirements.txt"
    folder = install.cache()
    folder.mkdir(parents=True, exist_ok=True)
    install.environment(folder / "s3", ["-r", str(listed)], listed.read_text())
    tests = ["cargo", "nextest", "run", "--locked", "--run-ignored", "only"]
    server = str(folder / "s3" / "bin" / "moto_server")

    def command(port: int) -> list[str]:
        return [server, "-H", "127.0.0.1", "-p", str(port)]

    def bucket(url: str) -> urllib.request.Request:
        return urllib.request.Request(f"{url}/{BUCKET}", method="PUT")

    # It answers once it has made the bucket.
    with guest.serving("s3", command, bucket, PATIENCE) as url:
        environment = {**os.environ, "OUTLAST_TEST_S3": url}
        only = ["-p", "outlast-blobs", "-p", "outlast-server", "-E", "test(s3)"]
        code = subprocess.run([*tests, *only], check=False, env=environment).returncode
    sys.exit(code)


if __name__ == "__main__":
    main()
