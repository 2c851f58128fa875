"""All faults that can be done here, and how they are chosen.

Numbers are those of docs/faults.md. Read by the command line and the demo; run by `chaos.play`.
"""

import itertools
from collections.abc import Sequence
from typing import TypeVar

from holdfast.kit import alike
from holdfast.lab.chaos.scenario import Scenario
from holdfast.lab.chaos.table import checkpoints, drivers, hardware, nodes, pauses, ranks, scripts

SCENARIOS: tuple[Scenario, ...] = tuple(
    sorted(
        itertools.chain.from_iterable(
            each.ROWS for each in (ranks, pauses, scripts, nodes, hardware, checkpoints, drivers)
        ),
        key=lambda row: row.number,
    )
)


class UnknownFault(ValueError):
    """No fault has this name; the message says which names are near it."""

    def __init__(self, names: Sequence[str], among: Sequence[Scenario]) -> None:
        known = [each.name for each in among]
        near = [each for name in names for each in alike.near(name, known)]
        hint = f" Nearest: {', '.join(dict.fromkeys(near))}." if near else ""
        verb = "is no fault" if len(names) == 1 else "are no faults"
        super().__init__(f"{', '.join(map(repr, names))} {verb}.{hint}")


def named(name: str) -> Scenario:
    """One fault by its name. Raises `UnknownFault`."""
    found = next((each for each in SCENARIOS if each.name == name), None)
    if found is None:
        raise UnknownFault([name], SCENARIOS)
    return found


S = TypeVar("S", bound=Scenario)

HARMLESS = {"pauses", "quiet"}
"""Families whose rows take minutes, and are no faults."""


def chosen(names: Sequence[str], among: Sequence[S]) -> list[S]:
    """By name, by number, or by the name of a family; "all" is every one that is a fault.

    Raises `UnknownFault`.
    """
    unknown = [name for name in names if not any(_is(name, each) for each in among)]
    if unknown:
        raise UnknownFault(unknown, among)
    return [each for each in among if any(_is(name, each) for name in names)]


def _is(name: str, scenario: Scenario) -> bool:
    if name == "all":
        return scenario.family not in HARMLESS
    return name in (scenario.name, str(scenario.number), scenario.family)
