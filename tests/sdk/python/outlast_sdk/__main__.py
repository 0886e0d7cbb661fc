"""Plays the scenarios and writes one line of JSON for each."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import anthropic.types.beta

from .plan import Entry, Plan
from .registry import Scenario, load
from .world import World

LONGEST = 180.0
"""Seconds that one scenario may take."""

AT_ONCE = 4
"""Scenarios that are played side by side."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="outlast_sdk", description=__doc__)
    parser.add_argument("--mode", choices=["sync", "async"], required=True)
    parser.add_argument("--plan", type=Path, required=True, help="the list of scenarios")
    parser.add_argument("--out", type=Path, required=True, help="file for the results")
    parser.add_argument("--only", default="", help="only scenarios that begin with this")
    return parser.parse_args()


async def main(given: argparse.Namespace) -> bool:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=128))
    sdk = f"python-{anthropic.__version__}"
    plan, scenarios = Plan.read(given.plan), load()
    plan.compare(set(scenarios))
    slots = asyncio.Semaphore(AT_ONCE)
    chosen = [entry for entry in plan.entries if entry.name.startswith(given.only)]

    async def play(entry: Entry) -> dict[str, Any]:
        async with slots:
            result = await one(entry, scenarios[entry.name], plan, sdk, given.mode)
            mark = {"pass": "ok  ", "absent": "none", "fail": "FAIL"}[result["result"]]
            print(f"{mark} {sdk} {given.mode} {entry.name} ({result['ms']} ms)", flush=True)
            return result

    results = await asyncio.gather(*(play(entry) for entry in chosen))
    given.out.write_text("".join(json.dumps(result) + "\n" for result in results))
    failed = [result for result in results if result["result"] == "fail"]
    for result in failed:
        print(f"\n--- {result['sdk']} {result['mode']} {result['scenario']}\n{result['error']}")
    return not failed


async def one(
    entry: Entry, scenario: Scenario, plan: Plan, sdk: str, mode: str
) -> dict[str, Any]:
    url, key = os.environ["OUTLAST_TEST_URL"], os.environ["OUTLAST_TEST_KEY"]
    world = World(mode, url, key, plan.known(sdk))
    began, error = time.monotonic(), None
    absent = entry.absent(sdk, mode)
    try:
        if absent:
            assert lacks(world, entry), f"said to be absent ({absent}), but the client has it"
        else:
            async with asyncio.timeout(LONGEST):
                await scenario(world)
            missed = set(entry.operations) - world.seen.calls
            assert not missed, f"never called: {', '.join(sorted(missed))}"
    except BaseException:
        error = traceback.format_exc()
    return {
        "scenario": entry.name,
        "operations": entry.operations,
        "sdk": sdk,
        "mode": mode,
        "result": "fail" if error else "absent" if absent else "pass",
        "ms": round((time.monotonic() - began) * 1000),
        "error": error,
    }


def lacks(world: World, entry: Entry) -> bool:
    """Tells whether this client really lacks what a scenario needs."""
    return any(not has(world, need) for need in entry.needs)


def has(world: World, need: str) -> bool:
    if need.startswith("class:"):
        return hasattr(anthropic.types.beta, need.removeprefix("class:"))
    path, _, parameter = need.partition("?")
    return world.api.has(path) and (not parameter or world.api.takes(path, parameter))


if __name__ == "__main__":
    fine = asyncio.run(main(arguments()))
    sys.stdout.flush()
    # A thread may still read a stream that nobody closed after a failure.
    os._exit(0 if fine else 1)
