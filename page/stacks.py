"""Stacks of ranks as the page shows them: whose are meant, and what is told of them. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.page.words import ranks as spans

_SPAN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
MOST = 1_024
"""Ranks that are asked about at once, as the REST interface has it."""
SHOWN_AT_FIRST = 64
"""Ranks of a job that the form has in it: each costs its node some 30 ms of a core."""


def numbers(typed: str) -> list[int] | None:
    """`0-3, 7`: the ranks that are meant, each once; None where that is no list of ranks, or one of
    more than are asked about at once."""
    found: set[int] = set()
    for word in typed.replace(",", " ").split():
        match = _SPAN.fullmatch(word)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last - first >= MOST:
            return None
        found.update(range(first, last + 1))
        if len(found) > MOST:
            return None
    return sorted(found) if found else None


def offered(world_size: int) -> str:
    """What the form has in it before somebody types: all of a small job."""
    last = min(world_size, SHOWN_AT_FIRST) - 1
    return f"0-{last}" if last > 0 else "0"


def head(ranks: Sequence[int]) -> str:
    """`rank 5`, `998 ranks: 0-996, 998`."""
    said = spans(ranks)
    return said if len(ranks) == 1 else f"{len(ranks):,} ranks: {said.removeprefix('ranks ')}"


def missing(told: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence a reason, with the ranks that it is true of."""
    by_reason: dict[str, list[int]] = {}
    for each in told:
        by_reason.setdefault(each["why"], []).append(each["rank"])
    return [f"No stack of {spans(ranks)}: {why}." for why, ranks in by_reason.items()]


def said(told: Mapping[str, Any]) -> str:
    """`2 different stacks of 4 ranks.`"""
    kinds, count = len(told["stacks"]), sum(len(each["ranks"]) for each in told["stacks"])
    if not count:
        return "No stack was taken."
    if count == 1:
        return "The stack of one rank."
    same = "All show the same stack" if kinds == 1 else f"{kinds:,} different stacks"
    return f"{same}: {count:,} ranks." if kinds == 1 else f"{same} of {count:,} ranks."
