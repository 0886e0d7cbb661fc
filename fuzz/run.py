"""Looks for bytes that break a parser: coverage-guided, by libFuzzer, with the project's own toolchain.

    python3 fuzz/run.py                                 # every target for a few seconds
    python3 fuzz/run.py --seconds 600 sweep swap        # these, for longer
    python3 fuzz/run.py --input FILE sweep              # one input again

Each target begins with its seeds and with what earlier runs found. Exits with 1 if one of them broke; the
input that did it is kept, and printed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent.resolve()

TARGETS = ("requests", "hello", "frames", "swap", "sweep", "places", "bodies")

SECONDS = 15
"""How long each target is tried where nothing else is said."""

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


def fuzz(binary: Path, folder: Path, seconds: int, given: Path | None) -> tuple[bool, str]:
    """Runs one target; says whether it held, and what it has to say."""
    name = binary.name
    corpus, broken = folder / "corpus" / name, folder / "broken" / name
    for new in (corpus, broken):
        new.mkdir(parents=True, exist_ok=True)
    limits = ["-timeout=20", "-rss_limit_mb=2048", f"-artifact_prefix={broken}/"]
    if name in LONGEST:
        limits.append(f"-max_len={LONGEST[name]}")
    inputs = [str(given)] if given else [str(corpus), str(HERE / "seeds" / name)]
    times = [] if given else [f"-max_total_time={seconds}", "-print_final_stats=1"]
    done = subprocess.run(
        [str(binary), *limits, *times, *inputs], capture_output=True, text=True, errors="replace"
    )
    held = done.returncode == 0
    return held, figures(name, done.stderr) if held else f"{name}: BROKEN\n{done.stderr[-6000:]}"


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
    parser.add_argument("--seconds", type=int, default=SECONDS, help=f"for each ({SECONDS})")
    parser.add_argument("--input", type=Path, help="tries this input alone")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    given = parser.parse_args()
    if unknown := set(given.targets) - set(TARGETS):
        parser.error(f"no target: {', '.join(sorted(unknown))}")
    folder = place()
    binaries = build(folder)
    # Two at a time: a run has one thread.
    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        chosen = given.targets or TARGETS
        tried = [
            pool.submit(fuzz, binaries / name, folder, given.seconds, given.input)
            for name in chosen
        ]
        results = [one.result() for one in tried]
    for _, words in results:
        print(words, flush=True)
    return 0 if all(held for held, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
