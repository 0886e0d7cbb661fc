"""Makes docs/compatibility.md and the table in README.md from the results of `run.py`.

    python3 tests/sdk/report.py --results DIR            # writes both
    python3 tests/sdk/report.py --results DIR --check    # fails if either is not what it would write
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import difflib
import json
import sys
from pathlib import Path

import install
import plan

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "compatibility.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- supported:begin -->", "<!-- supported:end -->"

KINDS = {
    "missing": "Not there yet",
    "differs": "Different",
    "more": "More than the hosted API",
    "chosen": "Where the API does not say",
}


@dataclasses.dataclass(frozen=True)
class Column:
    """One client in one mode."""

    sdk: str
    mode: str

    @property
    def title(self) -> str:
        language, _, version = self.sdk.partition("-")
        name = "`anthropic`" if language == "python" else "`@anthropic-ai/sdk`"
        mode = "" if language == "typescript" else f" {self.mode}"
        return f"{name} {version}{mode}"


def columns() -> list[Column]:
    """Returns the clients that must have played."""
    python = [Column(f"python-{v}", mode) for v in install.PYTHON for mode in ("sync", "async")]
    return [*python, Column(f"typescript-{install.TYPESCRIPT}", "async")]


class Results:
    """What came of every scenario in every client."""

    def __init__(self, folder: Path) -> None:
        self._found: dict[tuple[Column, str], dict[str, object]] = {}
        for file in sorted(folder.glob("*.jsonl")):
            for line in file.read_text().splitlines():
                result = json.loads(line)
                column = Column(result["sdk"], result["mode"])
                self._found[column, result["scenario"]] = result
        missing = [
            f"{column.title}: {item['name']}"
            for column in columns()
            for item in plan.scenarios()
            if (column, item["name"]) not in self._found
        ]
        if missing:
            sys.exit("no result of\n  " + "\n  ".join(missing))

    def of(self, column: Column, scenario: str) -> str:
        return str(self._found[column, scenario]["result"])


def cell(results: Results, column: Column, names: list[str]) -> str:
    """Says how the scenarios of one call went in one client: how many passed, and what did not."""
    count = collections.Counter(results.of(column, name) for name in names)
    if count["fail"]:
        return f"**{count['fail']} of {count['fail'] + count['pass']} fail**"
    return str(count["pass"]) if count["pass"] else "-"


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def head(titles: list[str]) -> list[str]:
    return [row(titles), row(["---"] * len(titles))]


def parts() -> list[dict[str, object]]:
    return plan.toml("operations.toml")["part"]


def played(call: str) -> list[str]:
    """Returns the scenarios that make a call."""
    return [item["name"] for item in plan.scenarios() if call in item["operations"]]


def calls(results: Results) -> list[str]:
    """The table of calls by client."""
    lines = head(["Call", *(column.title for column in columns())])
    for part in parts():
        if part["state"] == "here":
            for call in part["calls"]:
                names = played(call)
                if not names:
                    sys.exit(f"no scenario makes the call `{call}`")
                cells = [cell(results, column, names) for column in columns()]
                lines.append(row([f"`{call}`", *cells]))
    return lines


def scenarios(results: Results) -> list[str]:
    """The table of scenarios by client."""
    marks = {"pass": "yes", "fail": "**no**"}
    lines = head(["Scenario", "What", *(column.title for column in columns())])
    for item in plan.scenarios():
        cells = []
        for column in columns():
            result = results.of(column, item["name"])
            why = item["not_in"].get(column.sdk) or item["not_in"].get(column.mode)
            cells.append(marks.get(result) or f"- ({why})")
        lines.append(row([f"`{item['name']}`", item["says"], *cells]))
    return lines


def divergences() -> list[str]:
    """The registry, by kind."""
    listed = plan.toml("divergences.toml")["divergence"]
    names = {item["name"] for item in plan.scenarios()}
    lines = []
    for kind, title in KINDS.items():
        lines += ["", f"### {title}", "", *head(["What", "Here", "Why", "Shown by"])]
        for item in listed:
            if item["kind"] == kind:
                scenario = item.get("scenario")
                if scenario and scenario not in names:
                    sys.exit(f"the registry names a scenario that is not there: `{scenario}`")
                shown = f"`{scenario}`" if scenario else ""
                lines.append(row([item["what"], item["here"], item["why"], shown]))
    strange = {item["kind"] for item in listed} - set(KINDS)
    if strange:
        sys.exit(f"the registry has kinds that nobody renders: {strange}")
    return lines


def newer() -> list[str]:
    lines = []
    for sdk, fields in plan.toml("divergences.toml")["newer"].items():
        listed = ", ".join(f"`{field}`" for field in fields)
        lines.append(f"* {Column(sdk, '').title.strip()}: {listed}")
    return lines


def page(results: Results) -> str:
    later = [part for part in parts() if part["state"] == "later"]
    lines = [
        "# Compatibility",
        "",
        "Made by `tests/sdk/report.py` from the scenarios that `scripts/test` plays through the"
        " official clients, unmodified, against `outlast serve` on loopback with the scripted model"
        " and real sandboxes. Do not edit; CI compares.",
        "",
        "## Calls",
        "",
        "How many scenarios that make a call pass, by client. Every object in every answer and on"
        " every stream is held to the client's own types: in Python to its models, in TypeScript to"
        " its declarations. A field that a type requires and the server leaves out is a failure, and"
        " so is one that the type does not have.",
        "",
        *calls(results),
        "",
        "`-`: the client has no such call.",
        "",
        "## Parts that are not there yet",
        "",
        "These answer 404 with `error.details.error_code` `not_supported`.",
        "",
        *head(["Part", "Path", "Calls"]),
        *(
            row([part["title"], f"`{part['path']}`", ", ".join(f"`{call}`" for call in part["calls"])])
            for part in later
        ),
        "",
        "## Known divergences from the hosted API",
        *divergences(),
        "",
        "### What older clients do not know",
        "",
        "The server sends the current API to every client. Older ones keep fields that they do not"
        " know, as extra fields of their objects, and leave out events that they do not know.",
        "",
        *newer(),
        "",
        "## Scenarios",
        "",
        *scenarios(results),
        "",
    ]
    return "\n".join(lines)


def summary(results: Results) -> str:
    """The table of the README: one row for each part of the API."""
    lines = head(["Part", *(column.title for column in columns())])
    for part in parts():
        if part["state"] == "here":
            names = sorted({name for call in part["calls"] for name in played(call)})
            lines.append(row([part["title"], *(cell(results, column, names) for column in columns())]))
    later = ", ".join(part["title"].lower() for part in parts() if part["state"] == "later")
    lines += ["", "Figures are scenarios that pass through that client.", "", f"Not there yet: {later}."]
    return "\n".join(lines)


def filled(text: str, table: str) -> str:
    """Puts the table between the markers."""
    if BEGIN not in text or END not in text:
        sys.exit(f"README.md lacks {BEGIN} and {END}")
    before, rest = text.split(BEGIN, 1)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.split(END, 1)[1]}"


def settle(path: Path, wanted: str, check: bool) -> bool:
    """Writes a file, or tells how it differs from what it should be."""
    present = path.read_text() if path.exists() else ""
    if not check:
        path.write_text(wanted)
        return True
    lines = difflib.unified_diff(
        present.splitlines(), wanted.splitlines(), "committed", "generated", lineterm=""
    )
    for line in lines:
        print(line)
    return present == wanted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--check", action="store_true", help="only compare")
    given = parser.parse_args()
    results = Results(given.results)
    fine = settle(PAGE, page(results), given.check)
    fine &= settle(README, filled(README.read_text(), summary(results)), given.check)
    if not fine:
        print("not what the results say; run: tests/sdk/report.py --results DIR")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
