"""THE tables of a node's facets: every way from one state to another, and when it happens.

Checked by `Turn` at each change, drawn by `lab.lifecycle`. Must hold no condition: when a way is
taken is decided elsewhere, whether it exists is decided here.
"""

from collections.abc import Mapping
from operator import attrgetter, lt

from holdfast.driver.core.state import node as n
from holdfast.driver.core.state.node import Node
from holdfast.driver.core.state.value import Value

Edges = Mapping[tuple[type[Value], type[Value]], str]

PRESENCE: Edges = {
    (n.Unknown, n.Here): "the cluster has it now: a stranger is known",
    (n.Here, n.Gone): "the cluster says that it is gone",
    (n.Gone, n.Here): "the cluster has it again",
}
LINK: Edges = {
    (n.Never, n.Connected): "its executor connects for the first time",
    (n.Awaited, n.Connected): "its executor comes back to the driver that took over",
    (n.Broken, n.Connected): "its executor comes back, or another one comes",
    (n.Connected, n.Connected): "another executor of it connects, or from another address",
    (n.Connected, n.Broken): "its connection ends",
    (n.Connected, n.Awaited): "a driver takes over",
    (n.Broken, n.Awaited): "a driver takes over while it is away",
    (n.Awaited, n.Awaited): "its silence is looked at later, or another driver takes over",
    (n.Broken, n.Broken): "its silence is looked at later, or by nobody",
}
HOLDING: Edges = {
    (n.Free, n.Promised): "a job is to have it, as a place or as a standby",
    (n.Free, n.Lent): "its tests begin",
    (n.Promised, n.Held): "the cluster gave it to the job",
    (n.Promised, n.Promised): "the driver stood still: its executor has so much longer",
    (n.Promised, n.Returning): "the job does without it before it came",
    (n.Held, n.Held): "more is known of it as a part of the job",
    (n.Held, n.Returning): "the job leaves it, or ends",
    (n.Lent, n.Returning): "its tests are over",
    (n.Returning, n.Free): "the cluster has taken it back",
}
TRUST: Edges = {
    (n.Trusted, n.Suspect): "a fault or its tests alone speak against it, and its job leaves it",
    (n.Suspect, n.Suspect): "its tests could not be held, or say too little: they are held again",
    (n.Suspect, n.Trusted): "its tests find nothing, or cannot be held; or a person restores it",
    (n.Suspect, n.Quarantined): "its tests convict it, or it is evicted",
    (n.Trusted, n.Quarantined): "it is evicted",
    (n.Quarantined, n.Quarantined): "the mark, the next tests, or a person's word changes",
    (n.Quarantined, n.Trusted): "it passed its tests, or a person restores it",
    (n.Trusted, n.Trusted): "the cluster took its mark off",
}
FACETS: Mapping[str, Edges] = {
    "presence": PRESENCE,
    "link": LINK,
    "holding": HOLDING,
    "trust": TRUST,
}
GROW = ("generation", "epoch", "called")


class IllegalEdge(Exception):
    """A machine wanted a way that does not exist: a defect of ours."""

    def __init__(self, old: Node, facet: str, to: Value) -> None:
        before = type(getattr(old, facet)).__name__
        super().__init__(
            f"{facet} of {old.name}: {before} -> {type(to).__name__} is not in the table"
        )


_states, _grown = attrgetter(*FACETS), attrgetter(*GROW)


def check(old: Node, new: Node) -> None:
    """Raise `IllegalEdge` unless each facet that changed may change so."""
    for facet, before, after in zip(FACETS, _states(old), _states(new), strict=True):
        if before is after or (type(before), type(after)) in FACETS[facet] or before == after:
            continue
        raise IllegalEdge(old, facet, after)
    if old.told is not new.told and any(map(lt, _grown(new.told), _grown(old.told))):
        raise IllegalEdge(old, "told", new.told)
