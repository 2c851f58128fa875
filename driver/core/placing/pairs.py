"""Pairs of nodes that could not reach each other, though each could be reached by others.

Noted by the recovery and by tests of nodes, asked by whoever chooses nodes. Pure. A pair is nothing
against either of its nodes and is of no one job: the next one would stand still there as well. It
is a preference: where no other node is free the two are seated together, and that is said.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from holdfast.driver.core.state.model import Apart
from holdfast.driver.core.turn import Turn

KEPT = 64
"""Pairs that the driver remembers, the latest ones."""


def note(turn: Turn, *nodes: str) -> None:
    """These two could not reach each other now."""
    first, second = sorted(nodes)
    others = [each for each in _lately(turn) if each.nodes != (first, second)]
    turn.apart = (*others, Apart(nodes=(first, second), at_s=turn.now))[-KEPT:]


def meeting(turn: Turn, nodes: list[str]) -> list[str]:
    """Those of the nodes that can all meet, as far as is known, in their order. Left out is who is
    in most of the pairs; of two in as many the later one.
    """
    place = {node: k for k, node in enumerate(nodes)}
    out: set[str] = set()
    while left := [pair for pair in among(turn, place) if out.isdisjoint(pair)]:
        often = Counter(node for pair in left for node in pair)
        out.add(max(often, key=lambda node: (often[node], place[node])))
    return [node for node in nodes if node not in out]


def apart_from(turn: Turn, nodes: Iterable[str]) -> frozenset[str]:
    """Who could not reach one of these."""
    if not turn.apart:
        return frozenset()
    known = set(nodes)
    pairs = [each.nodes for each in _lately(turn)]
    ends = [(first, second) for first, second in pairs] + [pair[::-1] for pair in pairs]
    return frozenset(second for first, second in ends if first in known)


def among(turn: Turn, nodes: Collection[str]) -> list[tuple[str, str]]:
    """The pairs both of whose nodes are among these."""
    pairs = [each.nodes for each in _lately(turn)]
    return [pair for pair in pairs if pair[0] in nodes and pair[1] in nodes]


def say_of(turn: Turn, name: str, nodes: Collection[str]) -> None:
    """Say which pairs the job has got with these nodes: there was no other choice."""
    for first, second in among(turn, turn.jobs[name].nodes):
        if first in nodes or second in nodes:
            told = f"{first} and {second} could not reach each other lately"
            turn.say(f"{told}, and no other node is free for {name}", name)


def _lately(turn: Turn) -> list[Apart]:
    since_s = turn.now - turn.policy.apart_s
    return [each for each in turn.apart if each.at_s > since_s]
