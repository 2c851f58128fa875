"""Nodes that could not reach each other, though each could be reached by others.

Noted by the recovery and by tests of nodes, asked by whoever chooses nodes. Pure. It is a fact of
the link, nothing against either of its nodes, and of no one job: the next one would stand still
there as well. It is a preference: where no other node is free the two are seated together, and that
is said.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from holdfast.driver.core.state.fact import About, Bearing, Fact, OfLink
from holdfast.driver.core.turn import Turn


def note(
    turn: Turn,
    two: Collection[str],
    fact: str,
    bearing: Bearing,
    about: About,
    *,
    one_way: bool = False,
) -> None:
    """The first could not reach the second now, nor, but for `one_way`, the second the first."""
    known = [turn.nodes[each].subject for each in two if each in turn.nodes]
    ways = [known] if one_way else [known, known[::-1]]
    for source, target in ways if len(known) == 2 else ():
        link = OfLink(source=source, target=target)
        _add(turn, Fact(subject=link, what=fact, bearing=bearing, about=about))


def _add(turn: Turn, fact: Fact) -> None:
    """The newest of the same words stands: a pair that is told of again and again, for its job has
    no other nodes, displaces no other pair."""
    again = (fact.subject, fact.what, fact.about, fact.by)
    others = (x for x in turn.facts if (x.subject, x.what, x.about, x.by) != again)
    turn.put_facts(others)
    turn.add_fact(fact)


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
    """Who could not reach one of these, or be reached by it."""
    known = set(nodes) if turn.apart else ()
    ends = (pair for two in turn.apart for pair in (two, two[::-1]))
    return frozenset(second for first, second in ends if first in known)


def among(turn: Turn, nodes: Collection[str]) -> list[tuple[str, str]]:
    """The pairs both of whose nodes are among these."""
    return [pair for pair in turn.apart if pair[0] in nodes and pair[1] in nodes]


def say_of(turn: Turn, name: str, nodes: Collection[str]) -> None:
    """Say which pairs the job has got with these nodes: there was no other choice."""
    for first, second in among(turn, turn.jobs[name].nodes):
        if first in nodes or second in nodes:
            told = f"{first} and {second} could not reach each other lately"
            turn.say(f"{told}, and no other node is free for {name}", name)
