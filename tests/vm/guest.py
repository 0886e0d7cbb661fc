"""Runs in the guest as its first process: real sandboxes wherever a server may stand in control groups.

Prints `=== NAME: CODE after SECONDS s` for each part; any code but 0 is a failure. Then turns the guest off.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

TOP = Path("/sys/fs/cgroup")
USER = 1000
"""An ordinary user."""

PATIENCE = 240.0
"""Seconds that one part may take."""

DEMANDED = {"OUTLAST_TEST_CGROUPS": "v2 memory pids cpu"}
"""What the driver has to find there."""

HANDS = ["/vm/hands", "--test-threads=2"]

PLACES: dict[str, tuple[str | None, int | None]] = {
    # As root from a shell: the top of the tree, where processes of others are.
    "root": (None, None),
    # A service alone in a group of its own.
    "service": ("outlast.service", None),
    # An ordinary user's scope that a service manager handed over.
    "scope": ("scope", USER),
    # The shell of an ordinary user after the command that `outlast check` prints.
    "shell": ("shell/outlast-server", USER),
    # An ordinary user to whom nothing was handed over.
    "user": (None, USER),
}
"""Groups that they are in, and the users that they belong to."""

WHOLE = "cgroup v2 (memory, pids, cpu)"
"""What a server says of such a host."""

GROUPS = ["groups::", "crowds::"]
STILL = ["checkpoints::a_writer_stands_still_while_it_is_packed_and_goes_on", "crashes::"]
CHECK = ["/vm/outlast", "check"]
SERVE = "serve"

PARTS = [
    ("root", 0, {**DEMANDED, "OUTLAST_TEST_CORE_PATTERN": "1"}, [*HANDS, *GROUPS, *STILL]),
    ("service", 0, DEMANDED, [*HANDS, *GROUPS]),
    ("scope", 0, DEMANDED, [*HANDS, *GROUPS]),
    ("shell", 0, DEMANDED, [*HANDS, *GROUPS]),
    # Nothing is missing, and less than there could be.
    ("root", 0, {}, CHECK),
    ("user", 6, {}, CHECK),
    # The server and the host of its sandboxes are two processes in one group.
    ("root", 0, {}, [SERVE, WHOLE]),
    ("service", 0, {}, [SERVE, WHOLE]),
    ("scope", 0, {}, [SERVE, WHOLE]),
    ("shell", 0, {}, [SERVE, WHOLE]),
    ("user", 0, {}, [SERVE, "no cgroups"]),
]
"""Where, the code that it ends with, what it finds in its environment, the command."""


def main() -> None:
    mount()
    print(f"Linux {os.uname().release}, {TOP}: {(TOP / 'cgroup.controllers').read_text()}", end="")
    for place, code, environment, command in PARTS:
        run(place, code, environment, command)
    print("=== done", flush=True)
    os.sync()
    Path("/proc/sysrq-trigger").write_text("o")
    time.sleep(60)


def mount() -> None:
    """Mounts what an ordinary system has."""
    for kind, at in [("tmpfs", "/tmp"), ("tmpfs", "/dev/shm"), ("cgroup2", str(TOP))]:
        Path(at).mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", kind, kind, at], check=True)
    for at in ["/tmp", "/dev/shm", "/var/tmp"]:
        os.chmod(at, 0o1777)
    subprocess.run(["modprobe", "-a", "loop", "overlay"], check=True)
    subprocess.run(["busybox", "ip", "link", "set", "lo", "up"], check=True)


def run(place: str, wanted: int, more: dict[str, str], command: list[str]) -> None:
    """Runs one part where a place says, and tells how it ended."""
    name = f"{place}: {' '.join(command)}"
    print(f"=== {name}", flush=True)
    began = time.monotonic()
    if PLACES[place][0]:
        make(*PLACES[place])
    if command[0] == SERVE:
        # It stays outside and puts the server there.
        command = ["/usr/bin/python3", "-u", "/vm/serve.py", place, *command[1:]]
        place = "root"
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/var/tmp",
        "TMPDIR": "/var/tmp",
        **more,
    }
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        env=environment,
        cwd="/var/tmp",
        preexec_fn=lambda: enter(place),
    )
    code = wait(child.pid, began + PATIENCE)
    if code == wanted:
        code = 0
    elif code == 0:
        code = -2
    print(f"=== {name}: {code} after {time.monotonic() - began:.0f} s", flush=True)


def enter(place: str, group_too: bool = True) -> None:
    """Takes a process that is about to execute something to its place."""
    group, user = PLACES[place]
    if group and group_too:
        (TOP / group / "cgroup.procs").write_text(str(os.getpid()))
    if user is not None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)


def make(group: str, user: int | None) -> None:
    """Makes a group, and hands it and those above it over."""
    at = TOP
    (at / "cgroup.subtree_control").write_text("+memory +pids +cpu")
    for name in Path(group).parts:
        at = at / name
        at.mkdir(exist_ok=True)
        if user is not None:
            for file in [at, *at.iterdir()]:
                os.chown(file, user, user)


def wait(child: int, until: float) -> int:
    """Waits for a process, and reaps whatever else has ended: this is the first process."""
    while time.monotonic() < until:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return os.waitstatus_to_exitcode(status)
        if pid == 0:
            time.sleep(0.05)
    os.kill(child, 9)
    return -1


if __name__ == "__main__":
    try:
        main()
    finally:
        # The end of the first process would be a panic without words.
        sys.stdout.flush()
        Path("/proc/sysrq-trigger").write_text("o")
        time.sleep(60)
