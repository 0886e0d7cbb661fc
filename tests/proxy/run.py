"""Holds a silent stream open through a proxy that cuts what is silent.

    python3 tests/proxy/run.py --binary target/debug/outlast [--silent SECONDS]

Exits with 1 if the stream did not live, or the proxy did not cut.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "sdk"))

import guest  # noqa: E402
import install  # noqa: E402
import mute  # noqa: E402
import server  # noqa: E402

CUT = 30
"""Seconds of silence after which the proxy ends a connection."""

CONFIGURATION = """
defaults
  mode http
  timeout connect 5s
  timeout client {cut}s
  timeout server {cut}s
listen front
  bind 127.0.0.1:{port}
  use_backend mute if {{ path_beg /mute }}
  server outlast {outlast}
backend mute
  server mute {mute}
"""

NO_MODEL = {"OUTLAST_UPSTREAM_BASE_URL": "http://127.0.0.1:9", **server.QUICK_RETRIES}
"""Nothing listens there: what the session says at last is that its model does not answer."""


@contextlib.contextmanager
def proxied(outlast: str, silent: str) -> Iterator[str]:
    """Runs the proxy in front of both origins; yields its address."""
    with tempfile.TemporaryDirectory(prefix="outlast-proxy-") as folder:
        file = Path(folder) / "haproxy.cfg"

        def command(port: int) -> list[str]:
            origin = outlast.removeprefix("http://")
            words = CONFIGURATION.format(cut=CUT, port=port, outlast=origin, mute=silent)
            file.write_text(words)
            return ["haproxy", "-db", "-f", str(file)]

        def health(url: str) -> urllib.request.Request:
            return urllib.request.Request(f"{url}/healthz")

        with guest.serving("proxy", command, health, 30.0) as url:
            yield url


def held(url: str, key: str, silent: int) -> bool:
    """Runs the client; says whether its stream lived."""
    python = str(install.python(install.cache(), install.PYTHON[0]))
    keep = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    words = {**keep, "OUTLAST_TEST_URL": url, "OUTLAST_TEST_KEY": key}
    client = [python, str(HERE / "silence.py"), str(silent)]
    return subprocess.run(client, env=words, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, required=True, help="the binary `outlast`")
    parser.add_argument("--silent", type=int, default=75, help="seconds of silence (75)")
    given = parser.parse_args()
    if given.silent <= CUT:
        parser.error(f"--silent: more than {CUT}, after which the proxy cuts")
    with mute.origin() as silent, server.running(given.binary, NO_MODEL) as outlast:
        with proxied(outlast.url, silent) as url:
            found: list[float] = []
            control = threading.Thread(target=lambda: found.append(mute.lived(f"{url}/mute")))
            control.start()
            lived = held(url, outlast.key, given.silent)
            control.join(2 * CUT)
    cut = bool(found) and CUT - 1 <= found[0] <= 2 * CUT
    print(f"an origin that says nothing was cut after {found} s, the stream lived: {lived}")
    return 0 if lived and cut else 1


if __name__ == "__main__":
    sys.exit(main())
