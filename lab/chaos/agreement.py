"""Whether the page of faults says what the scenarios do: which there are, and what they cover.
Pure, but for the reading of the page.

Called by `chaos.report` and by a test.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.lab.chaos.kubernetes.scenarios import SCENARIOS as ON_KUBERNETES
from holdfast.lab.chaos.scenarios import SCENARIOS

ROW = re.compile(r"^\| (?P<number>\d+) \| (?P<fault>[^|]+) \| (?P<scenario>[^|]+) \| ", re.M)
NAME = re.compile(r"`([a-z0-9-]+)`")
SIMULATED = re.compile(r"simulated \([^)]*\)")
ALL = (*SCENARIOS, *ON_KUBERNETES)
UNCOVERED = ("not yet", "no scenario", "simulated only", "by design")
"""Words of a row that has none."""
FAULTS = 50


class NoPage(Exception):
    """There is no such page, or not in this form; the message says so."""


class Told(NamedTuple):
    """A row of the page: its number, the scenarios that it names, and all its words on them."""

    number: int
    names: frozenset[str]
    words: str


def text_of(page: Path) -> str:
    """Raises `NoPage`."""
    try:
        return page.read_text()
    except OSError as error:
        raise NoPage(f"cannot read {page}: {error.strerror}") from error


def rows(page: str) -> list[Told]:
    table, _, _ = page.partition("\n## ")  # others are of what was measured
    cells = ((int(row["number"]), row["scenario"].strip()) for row in ROW.finditer(table))
    return [Told(number, _names(words), words) for number, words in cells]


def _names(words: str) -> frozenset[str]:
    """The name of a family is that of all its scenarios; what stands in brackets after `simulated`
    are lives of the simulator, and no scenarios."""
    written = NAME.findall(SIMULATED.sub("", words))
    own = {name: {each.name for each in ALL if each.family == name} for name in written}
    return frozenset().union(*(own[name] or {name} for name in written))


def wrong(page: str) -> list[str]:
    """What it says that is not so, in sentences; none where it agrees."""
    told = rows(page)
    numbers = [row.number for row in told]
    there = {*range(1, FAULTS + 1), *(each.number for each in ALL)}
    missing = [f"fault {each} has no row" for each in sorted(there.difference(numbers))]
    return missing + [sentence for row in told for sentence in _wrong_of(row)]


def _wrong_of(row: Told) -> Iterator[str]:
    known = {each.name for each in ALL}
    own = {each.name for each in ALL if each.number == row.number}
    for name in sorted(row.names - known):
        yield f"row {row.number} names {name}, and there is no such scenario"
    for name in sorted(own - row.names):
        yield f"row {row.number} leaves the scenario {name} out"
    uncovered = [each for each in UNCOVERED if each in row.words]
    if uncovered and own:
        yield f"row {row.number} says {uncovered[0]!r}, and there is {', '.join(sorted(own))}"
    if not uncovered and not row.names:
        yield f"row {row.number} says neither which scenario there is, nor that there is none"
