"""Looks for bytes that break a parser: coverage-guided, by libFuzzer, with the project's own toolchain.

    python3 fuzz/run.py                                 # every target, with the inputs that are kept
    python3 fuzz/run.py --seconds 600 sweep swap        # these, for what nobody has seen yet
    python3 fuzz/run.py --keep                          # keep what reaches most of what was ever reached
    python3 fuzz/run.py --input FILE sweep              # one input again

Without a time each target has its seeds and the inputs of `inputs/NAME.txt`, one to a line in Base64, and no
others: what breaks then, a change broke, and not luck. With a time it begins with those and with what earlier
runs found, and looks further. Exits with 1 if one of them broke; the input that did it is kept, and printed.
"""

from __future__ import annotations

import argparse
import base64
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent.resolve()

TARGETS = ("requests", "hello", "frames", "swap", "sweep", "places", "bodies")

LONGEST = {"requests": 1024, "hello": 2048, "swap": 512, "sweep": 96, "places": 256}
"""The longest inputs, in bytes: as long as something new can come of it, as short as they are fast."""

COVERAGE = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
]
"""What instruments a build; all of it is stable, and what is not (sanitizers) finds nothing in safe code."""


def place() -> Path:
    """Returns the folder that builds and findings go to: never the checkout's, unless it is a target."""
    known = os.environ.get("CARGO_TARGET_DIR")
    return (Path(known) if known else HERE / "target") / "fuzz"


def build(folder: Path) -> Path:
    """Builds every target, instrumented; returns where they are."""
    words = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = re.search(r"^host: (.+)$", words, re.MULTILINE)
    assert host is not None
    # With a target that is named, what runs while building is not instrumented.
    command = ["cargo", "build", "--locked", "--bins", "--target", host[1]]
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(folder / "target"),
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(COVERAGE),
    }
    if subprocess.run(command, cwd=HERE, env=environment, check=False).returncode != 0:
        sys.exit("the targets could not be built")
    return folder / "target" / host[1] / "debug"


def unpacked(name: str, folder: Path) -> list[str]:
    """Returns the folders with what is tried of a target whenever it is."""
    seeds, kept = HERE / "seeds" / name, folder / "inputs" / name
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for number, line in enumerate(inputs(name).read_text().splitlines()):
        (kept / f"{number:04}").write_bytes(base64.b64decode(line, validate=True))
    return [str(seeds), str(kept)]


def inputs(name: str) -> Path:
    """Returns the file with the inputs of a target that are kept."""
    return HERE / "inputs" / f"{name}.txt"


def told(binary: Path, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Runs one target with these arguments."""
    name = binary.name
    broken = folder / "broken" / name
    broken.mkdir(parents=True, exist_ok=True)
    limits = ["-timeout=20", "-rss_limit_mb=2048", f"-artifact_prefix={broken}/"]
    limits.append(f"-max_len={LONGEST.get(name, 4096)}")
    command = [str(binary), *limits, *more]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


def fuzz(binary: Path, folder: Path, seconds: int | None, given: Path | None) -> tuple[bool, str]:
    """Runs one target; says whether it held, and what it has to say."""
    name, corpus = binary.name, folder / "corpus" / binary.name
    if given:
        what = [str(given)]
    elif seconds:
        corpus.mkdir(parents=True, exist_ok=True)
        # What is new goes into the first folder.
        what = [f"-max_total_time={seconds}", str(corpus), *unpacked(name, folder)]
    else:
        what = ["-runs=0", *unpacked(name, folder)]
    done = told(binary, folder, "-print_final_stats=1", *what)
    held = done.returncode == 0
    return held, figures(name, done.stderr) if held else f"{name}: BROKEN\n{done.stderr[-6000:]}"


def keep(binary: Path, folder: Path) -> tuple[bool, str]:
    """Keeps as few inputs as reach all of the code that any known one reaches."""
    name = binary.name
    chosen, corpus = folder / "chosen" / name, folder / "corpus" / name
    shutil.rmtree(chosen, ignore_errors=True)
    for new in (chosen, corpus):
        new.mkdir(parents=True, exist_ok=True)
    known = [*unpacked(name, folder), str(corpus)]
    done = told(binary, folder, "-set_cover_merge=1", "-use_counters=0", str(chosen), *known)
    if done.returncode != 0:
        return False, f"{name}: BROKEN\n{done.stderr[-6000:]}"
    lines = sorted(base64.b64encode(one.read_bytes()).decode() for one in chosen.iterdir())
    inputs(name).write_text("".join(f"{line}\n" for line in lines))
    return True, f"{name:9} {len(lines):>10,} inputs kept"


def figures(name: str, log: str) -> str:
    """Returns one line about a run that held."""
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", log)
    covered = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", log)
    if not runs or not covered:
        return f"{name}: held"
    edges, _, corpus = covered[-1]
    return f"{name:9} {int(runs[1]):>10,} runs  {edges:>6} edges  {corpus:>5} inputs kept"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, help="tries each for so long, new inputs every time")
    parser.add_argument("--input", type=Path, help="tries this input alone")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--keep", action="store_true", help="chooses anew which inputs are kept")
    given = parser.parse_args()
    if unknown := set(given.targets) - set(TARGETS):
        parser.error(f"no target: {', '.join(sorted(unknown))}")
    folder = place()
    binaries = build(folder)
    # Two at a time: a run has one thread.
    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        chosen = given.targets or TARGETS
        begun = [
            pool.submit(keep, binaries / name, folder)
            if given.keep
            else pool.submit(fuzz, binaries / name, folder, given.seconds, given.input)
            for name in chosen
        ]
        results = [one.result() for one in begun]
    for _, words in results:
        print(words, flush=True)
    return 0 if all(held for held, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
