"""Runs the Python of README.md as it stands there, but for the address and the key."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import install
import server

README = Path(__file__).parent.parent.parent / "README.md"


def example(url: str, key: str) -> str:
    """Returns the only block of Python, with this server in place of the one it names."""
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    changed, address = re.subn(r'base_url="[^"]*"', f'base_url="{url}"', code)
    changed, secret = re.subn(r'api_key="[^"]*"', f'api_key="{key}"', changed)
    assert (address, secret) == (1, 1), "README.md names no address or no key"
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, required=True, help="the binary `outlast`")
    binary = parser.parse_args().binary
    python = install.python(install.cache(), install.PYTHON[0])
    with server.running(binary) as outlast:
        code = example(outlast.url, outlast.key)
        ran = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    types = ran.stdout.split()
    print(*types)
    wanted = {"agent.tool_use", "agent.tool_result", "agent.message"}
    assert wanted <= set(types) and types[-1] == "session.status_idle", types


if __name__ == "__main__":
    sys.exit(main())
