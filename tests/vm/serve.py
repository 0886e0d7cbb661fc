"""Starts a whole server as an operator does, has a sandbox run a command, and ends it in order.

    serve.py PLACE WORDS

Exits with 1 if the server does not say these words of its isolation, if the command does not run, or if a
control group is left.
"""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
import tempfile

import guest

OUTLAST = "/vm/outlast"
TASK = {"script": [{"calls": [{"name": "bash", "input": {"command": "cat /proc/self/cgroup"}}]},
                   {"text": "It said: {{results}}"}]}


def main(place: str, words: str) -> None:
    """Does it, the server where the place says, the commands as the same user beside it."""
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, guest.PLACES[place][1] or 0, 0)
        environment = {**os.environ, "OUTLAST_DATA_DIR": home, "HOME": home}
        server = subprocess.Popen(
            [OUTLAST, "serve", "--listen", "127.0.0.1:0"],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: guest.enter(place),
        )

        def outlast(*arguments: str) -> str:
            done = subprocess.run(
                [OUTLAST, *arguments],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                preexec_fn=lambda: guest.enter(place, group_too=False),
            )
            return done.stdout.strip()

        try:
            said = banner(server)
            assert words in said, f"{words!r} is not in {said}"
            told = outlast("run", json.dumps(TASK))
            assert told.startswith("It said: 0::"), told
            assert bool(groups()) == ("v2" in words), groups()
        finally:
            server.terminate()
            server.wait()
            outlast("hand-host", "--stop")
    assert not groups(), groups()


def banner(server: subprocess.Popen[str]) -> str:
    """Returns what a server says first."""
    said = ""
    while line := server.stdout.readline():
        said += line
        if "  key " in line:
            return said
    raise AssertionError(f"the server ended: {said}")


def groups() -> list[str]:
    """Returns the groups of sandboxes that there are."""
    found = glob.glob("/sys/fs/cgroup/**/outlast-box-*", recursive=True)
    return [path for path in found if os.path.isdir(path)]


if __name__ == "__main__":
    main(*sys.argv[1:])
