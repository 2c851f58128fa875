"""Stacks of many ranks, those that are equal told once. Pure.

Called by the driver where a person asks for the stacks of ranks. A thousand ranks that wait in the
same line are one block, and the one that stands elsewhere is another.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

_PROCESS = re.compile(r"^Process \d+:.*\n?(Python v.*\n?)?\n?", re.MULTILINE)
_THREAD = re.compile(r"^Thread \S+ \(", re.MULTILINE)
NO_STACK = "no stack: "
"""How an executor begins the reason why it has none."""


class Alike(NamedTuple):
    """Ranks, in order, and what all of them show."""

    ranks: tuple[int, ...]
    text: str


def alike(stacks: Mapping[int, str]) -> list[Alike]:
    """What most ranks show first; of as many each, what the lowest rank shows."""
    found: dict[str, list[int]] = {}
    for rank in sorted(stacks):
        found.setdefault(without_numbers(stacks[rank]), []).append(rank)
    groups = [Alike(tuple(ranks), text) for text, ranks in found.items()]
    return sorted(groups, key=lambda each: (-len(each.ranks), each.ranks))


def without_numbers(text: str) -> str:
    """Without what is another in each process: pids, command lines and numbers of threads. Child
    processes, which come behind the rank's own, keep a line of their own.
    """
    named = _PROCESS.sub("Child process\n", text.strip())
    own = named.removeprefix("Child process\n")
    return _THREAD.sub("Thread (", own).strip()
