"""Starts `outlast serve` for a test, with nothing of the caller's environment."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PATIENCE = 60.0
"""Seconds for a start or an end."""

QUICK_RETRIES = {
    "OUTLAST__RETRIES__FIRST_SECONDS": "0.05",
    "OUTLAST__RETRIES__LONGEST_SECONDS": "0.2",
    "OUTLAST__RETRIES__MOST": "4",
}


class Server:
    """A running server."""

    def __init__(self, binary: Path, folder: Path, settings: dict[str, str]) -> None:
        self._binary, self._folder = binary, folder
        self.key = f"test-{secrets.token_hex(16)}"
        self.log = folder / "server.log"
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "OUTLAST_API_KEY": self.key,
            "OUTLAST_DATA_DIR": str(folder / "data"),
            # Sandboxes outlive the server; those of a test not for long.
            "OUTLAST__HANDS__ORPHAN_SECONDS": "15",
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> None:
        """Starts it and waits until it answers."""
        found = self._folder / "data" / "local.url"
        found.unlink(missing_ok=True)
        command = [str(self._binary), "serve", "--listen", "127.0.0.1:0"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=self._environment, cwd=self._folder, stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE
        while not found.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start:\n{self.log.read_text()}")
            time.sleep(0.02)
        self.url = found.read_text().strip()

    def stop(self) -> None:
        """Ends it in order; fails if it does not end, or ends with a failure."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise RuntimeError("the server did not end") from None
        if code != 0:
            raise RuntimeError(f"the server ended with {code}:\n{self.tail()}")

    def kill(self) -> None:
        """Kills it at once, as a power cut would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def tail(self) -> str:
        """Returns the last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])


@contextlib.contextmanager
def running(
    binary: Path, settings: dict[str, str] | None = None, configuration: str = ""
) -> Iterator[Server]:
    """Runs a server on a data directory of its own, and ends it."""
    with tempfile.TemporaryDirectory(prefix="outlast-test-") as folder:
        file = Path(folder) / "outlast.toml"
        file.write_text(configuration)
        settings = {"OUTLAST_CONFIG": str(file), **(settings or {})}
        server = Server(binary.resolve(), Path(folder), settings)
        server.start()
        try:
            yield server
        except BaseException:
            print(server.tail())
            server.kill()
            raise
        server.stop()
