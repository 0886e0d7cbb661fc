"""The scenarios of this client, by the names of the shared list."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable

from .world import World

Scenario = Callable[[World], Awaitable[None]]

SCENARIOS: dict[str, Scenario] = {}


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    """Registers a scenario under its name in `scenarios.toml`."""

    def keep(play: Scenario) -> Scenario:
        assert name not in SCENARIOS, f"scenario `{name}` is there twice"
        SCENARIOS[name] = play
        return play

    return keep


def load() -> dict[str, Scenario]:
    """Imports every scenario."""
    package = importlib.import_module(f"{__package__}.scenarios")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return SCENARIOS
