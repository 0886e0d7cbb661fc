"""Runs real sandboxes in a small virtual machine whose kernel has control groups of version 2 alone.

    python3 tests/vm/run.py

Needs root, and Debian's `qemu-system-x86`, `mmdebstrap` and `e2fsprogs`. The guest is Debian with its
kernel for clouds, Python, `e2fsprogs` and `procps`, made once by `mmdebstrap` outside the checkout. It is
emulated, so that it runs everywhere, and has no network. Exits with 1 if a part fails.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "sdk"))

import install  # noqa: E402

NEEDED = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mmdebstrap": "mmdebstrap",
    "mkfs.ext4": "e2fsprogs",
    "strip": "binutils",
}
"""Programs, and the packages that have them."""

SUITE = "bookworm"
PACKAGES = [
    "busybox-static",
    "e2fsprogs",
    "linux-image-cloud-amd64",
    "mount",
    "procps",
    "python3",
]
"""What the guest is made of, beside what every Debian has."""

INIT = """#!/bin/sh
mount -t proc proc /proc
mount -t ext4 -o ro /dev/vdb /vm
exec python3 -u /vm/guest.py
"""
"""The guest's first process: everything else lies on the second disk."""

PATIENCE = 1500.0
"""Seconds for everything."""


def main() -> None:
    missing = [name for program, name in NEEDED.items() if not shutil.which(program)]
    if missing:
        sys.exit(f"error: install what is missing: apt-get install {' '.join(missing)}")
    folder = system()
    programs = built()
    with tempfile.TemporaryDirectory() as place:
        second = disk(Path(place), programs)
        ended = boot(folder, second)
    failed = [name for name, code in ended if code != 0]
    print(f"{len(ended)} parts, failed: {', '.join(failed) or 'none'}")
    sys.exit(1 if failed or not ended else 0)


def system() -> Path:
    """Returns the folder with the guest's kernel and disk; makes it once."""
    recipe = json.dumps([SUITE, PACKAGES, INIT])
    key = hashlib.sha256(recipe.encode()).hexdigest()[:12]
    folder = install.cache() / "vm" / key
    if (folder / "root.img").exists():
        return folder
    print("making the guest's system", flush=True)
    draft = folder.with_name(f"{key}.new")
    shutil.rmtree(draft, ignore_errors=True)
    root = draft / "root"
    root.mkdir(parents=True)
    excluded = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]
    include = f"--include={','.join(PACKAGES)}"
    options = ["--quiet", "--variant=minbase", include, *excluded]
    subprocess.run(["mmdebstrap", *options, SUITE, str(root)], check=True)
    (root / "vm").mkdir()
    init = root / "init"
    init.write_text(INIT)
    init.chmod(0o755)
    for name in ("vmlinuz", "initrd.img"):
        shutil.copy((root / name).resolve(), draft / name)
    image = draft / "root.img"
    subprocess.run(["mkfs.ext4", "-q", "-d", str(root), str(image), "1500M"], check=True)
    shutil.rmtree(root)
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)
    return folder


def built() -> dict[str, Path]:
    """Builds what runs in the guest: the binary, and the tests of hands."""
    command = ["cargo", "test", "--locked", "--no-run", "--message-format=json-render-diagnostics"]
    tests = executable([*command, "-p", "outlast-hands", "--test", "it"], "it")
    command = ["cargo", "build", "--locked", "--message-format=json-render-diagnostics"]
    binary = executable([*command, "-p", "outlast-server", "--bin", "outlast"], "outlast")
    return {"hands": tests, "outlast": binary}


def executable(command: list[str], name: str) -> Path:
    """Builds, and returns the program of that name."""
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    for line in made.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == name:
            return Path(message["executable"])
    raise SystemExit(f"error: cargo made no program `{name}`")


def disk(place: Path, programs: dict[str, Path]) -> Path:
    """Makes the guest's second disk: programs without what debuggers want, and what runs them."""
    content = place / "content"
    content.mkdir()
    for name, program in programs.items():
        subprocess.run(["strip", "-o", str(content / name), str(program)], check=True)
        (content / name).chmod(0o755)
    for name in ("guest.py", "serve.py"):
        shutil.copy(HERE / name, content)
    image = place / "vm.img"
    subprocess.run(["mkfs.ext4", "-q", "-d", str(content), str(image), "500M"], check=True)
    return image


def boot(folder: Path, second: Path) -> list[tuple[str, int]]:
    """Runs the guest to its end; returns its parts and how they ended."""
    drive = "if=virtio,format=raw,snapshot=on"
    command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max"]
    command += ["-smp", "2", "-m", "3072", "-nic", "none", "-nographic", "-no-reboot"]
    command += ["-kernel", str(folder / "vmlinuz"), "-initrd", str(folder / "initrd.img")]
    command += ["-append", "console=ttyS0 root=/dev/vda rw init=/init panic=-1 quiet"]
    command += ["-drive", f"file={folder / 'root.img'},{drive}", "-drive", f"file={second},{drive}"]
    guest = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
    )
    began, ended, is_done = time.monotonic(), [], False
    try:
        for line in guest.stdout or ():
            print(line, end="", flush=True)
            if told := re.match(r"=== (.*): (-?\d+) after \d+ s", line):
                ended.append((told[1], int(told[2])))
            is_done |= line.startswith("=== done")
            if time.monotonic() - began > PATIENCE:
                break
    finally:
        guest.kill()
        guest.wait()
    return ended if is_done else [*ended, ("the guest", 1)]


if __name__ == "__main__":
    main()
