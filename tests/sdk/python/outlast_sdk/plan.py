"""The shared list of scenarios, as `run.py` hands it over."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Entry:
    """One scenario of the list."""

    name: str
    says: str
    operations: list[str]
    needs: list[str]
    not_in: dict[str, str]

    def absent(self, sdk: str, mode: str) -> str | None:
        """Says why a client cannot play this, if so."""
        return self.not_in.get(sdk) or self.not_in.get(mode)


@dataclasses.dataclass(frozen=True)
class Plan:
    """All scenarios, and the fields that a client may not know."""

    entries: list[Entry]
    newer: dict[str, list[str]]

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Reads it."""
        given = json.loads(path.read_text())
        return cls([Entry(**item) for item in given["scenarios"]], given["newer"])

    def known(self, sdk: str) -> frozenset[str]:
        """Returns the fields that are registered as newer than a client."""
        return frozenset(self.newer.get(sdk, []))

    def compare(self, played: set[str]) -> None:
        """Fails unless the list and what is written here are the same."""
        listed = {item.name for item in self.entries}
        assert listed == played, f"not the same as the list: {sorted(listed ^ played)}"
