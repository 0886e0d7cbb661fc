"""The list of scenarios and the registry of divergences, read from TOML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python before 3.11
    from pip._vendor import tomli as tomllib

HERE = Path(__file__).parent


def toml(name: str) -> dict[str, Any]:
    """Reads one of the files beside this one."""
    return tomllib.loads((HERE / name).read_text())


def scenarios() -> list[dict[str, Any]]:
    """Returns the scenarios, each with all its keys."""
    empty = {"needs": [], "not_in": {}}
    return [{**empty, **item} for item in toml("scenarios.toml")["scenario"]]


def write(path: Path) -> None:
    """Writes what the clients need to know, as JSON."""
    newer = toml("divergences.toml").get("newer", {})
    path.write_text(json.dumps({"scenarios": scenarios(), "newer": newer}))
