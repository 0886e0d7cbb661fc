"""Runs a server that nobody here wrote, for a test: on loopback, with nothing of the caller's environment."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def serving(
    name: str,
    command: Callable[[int], list[str]],
    ready: Callable[[str], urllib.request.Request],
    patience: float,
) -> Iterator[str]:
    """Runs the command for a free port until `ready`, asked of the address, is answered, and ends it.

    `patience` is in seconds. A server that does not answer by then fails with the end of its log.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix=f"outlast-{name}-") as folder:
        log = Path(folder) / "server.log"
        environment = {"HOME": folder, "PATH": os.environ["PATH"]}
        with log.open("wb") as out:
            process = subprocess.Popen(command(port), env=environment, stdout=out, stderr=out)
        try:
            url = f"http://127.0.0.1:{port}"
            if not _answers(ready(url), process, patience):
                end = log.read_text(errors="replace")[-4000:]
                raise RuntimeError(f"the {name} server does not answer:\n{end}")
            yield url
        finally:
            process.kill()
            process.wait()


def _answers(
    request: urllib.request.Request, process: subprocess.Popen[bytes], patience: float
) -> bool:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(request, timeout=5):
                return True
        time.sleep(0.1)
    return False
