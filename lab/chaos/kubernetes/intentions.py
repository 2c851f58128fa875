"""Each effect of the journal, held against the writes that were done for it. Pure.

Used by `witnesses`. An effect that nobody saw end is ordered again by the next driver, so what is
counted is an *intention*: all orders of an effect, from the first to the event that it ended in.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from holdfast.driver.adapters.kubernetes import pods
from holdfast.driver.core.effects import Allocate, Distrust, HoldForExam, Release, Trust
from holdfast.driver.core.events import (
    AllocationFailed,
    AnyEvent,
    ClusterCallFailed,
    NodeAllocated,
    NodeDistrusted,
    NodeReleased,
    NodeTrusted,
)
from holdfast.driver.ports import Entry
from holdfast.lab.chaos.kubernetes.effects import Call, Event

MARKS = ("patch nodes", "patch nodes/status")
MAY = {
    "Allocate": (
        *("create pods", "patch pods", "delete pods"),
        *("create podgroups", "delete podgroups"),
    ),
    "HoldForExam": ("create pods", "delete pods"),
    "Release": ("delete pods",),
    "Distrust": MARKS,
    "Trust": MARKS,
}
"""What is written for each effect that is carried out on the API server, once for each object."""
MUST = {
    "Allocate": "create pods",
    "HoldForExam": "create pods",
    "Distrust": "patch nodes",
    "Trust": "patch nodes",
}
"""Of it, what must have been written where the effect came about; of Release see `_left`."""

OnNode = Allocate | HoldForExam | Release | Distrust | Trust
ON_NODES = (Allocate, HoldForExam, Release, Distrust, Trust)
ENDS = (NodeAllocated, AllocationFailed, NodeReleased, NodeDistrusted, NodeTrusted)
ENDED_BY: Mapping[type[AnyEvent], tuple[str, ...]] = {
    NodeAllocated: ("Allocate", "HoldForExam"),
    AllocationFailed: ("Allocate", "HoldForExam"),
    NodeReleased: ("Release",),
    NodeDistrusted: ("Distrust",),
    NodeTrusted: ("Trust",),
}
"""Events in which effects end; a `ClusterCallFailed` is tried again."""


class Key(NamedTuple):
    """What two orders of one intention have in common; `exam` is 0 but of an exam."""

    doing: str
    node: str
    exam: int


class Order(NamedTuple):
    """As a User-Agent names it."""

    term: int
    entry: int
    doing: str
    node: str


class Intention(NamedTuple):
    """One effect on a node: the journal entries that ordered it, and whether it came about."""

    doing: str
    node: str
    entries: frozenset[int]
    came_about: bool

    def __str__(self) -> str:
        ordered = ", ".join(map(str, sorted(self.entries)))
        return f"{self.doing} {self.node} (entry {ordered})"


def wrong(
    calls: Sequence[Call], entries: Sequence[Entry], *, settled: int, left: Sequence[Event]
) -> list[str]:
    """Where calls and intentions are not one to one, in sentences. `settled`: the newest entry when
    the calls were counted; `left`: the pods that are there since.
    """
    wanted = intentions(entries, settled=settled)
    terms = {entry.sequence: entry.term for entry in entries}
    of_order = {
        Order(terms[entry], entry, each.doing, each.node): each
        for each in wanted
        for entry in each.entries
    }
    found = [(of_order.get(Order(*call[:4])), call) for call in calls]
    joined = [(each, call) for each, call in found if each and call.did in MAY[each.doing]]
    ordered = {id(call) for _, call in joined}
    strays = [call for call in calls if id(call) not in ordered]
    return [
        *(f"{call}: no entry of the journal orders it" for call in strays),
        *_repeated(_answered(joined, entries)),
        *_missing(wanted, joined),
        *_elsewhere(calls),
        *_left(wanted, calls, left),
    ]


def intentions(entries: Sequence[Entry], *, settled: int) -> list[Intention]:
    """Every effect of the journal on a node, in the order in which they ended."""
    return list(_intentions(entries, settled))


Joined = Sequence[tuple[Intention, Call]]


def _answered(joined: Joined, entries: Sequence[Entry]) -> Joined:
    """Without deletions whose answer was lost: the driver heard that its call had failed, and asks
    again, by force where the pod's node has gone meanwhile. (What is made twice is wrong even so:
    its name says that it is there.)"""
    failed = {each.event.cause for each in entries if isinstance(each.event, ClusterCallFailed)}
    return [
        (each, call)
        for each, call in joined
        if not (call.did.startswith("delete") and call.entry in failed)
    ]


def _repeated(joined: Joined) -> Iterator[str]:
    """Of each object one write; of a pod that is made there is no other name either."""
    written = Counter(
        (each, call.did, "" if call.did.startswith("create") else call.uid or call.name)
        for each, call in joined
        if call.changed
    )
    for (each, did, place), count in written.items():
        if count > 1:
            mine = (call for by, call in joined if by is each and call.did == did)
            names = {call.name for call in mine if place in ("", call.uid, call.name)}
            yield f"{each}: {did} {', '.join(sorted(names))} was done {count} times"


def _missing(wanted: Sequence[Intention], joined: Joined) -> Iterator[str]:
    done = {(each, call.did) for each, call in joined}
    opened = {(each, call.uid) for each, call in joined if call.did == "patch pods"}
    for each in wanted:
        must = MUST.get(each.doing)
        if must and each.came_about and (each, must) not in done:
            yield f"{each}: {must} was done 0 times"
    for each, call in joined:
        if each.came_about and call.gated and (each, call.uid) not in opened:
            yield f"{each}: the gate of {call.name} was never taken off"


def _elsewhere(calls: Sequence[Call]) -> Iterator[str]:
    """A pod is deleted, and its gate taken off, for the node that it was made for."""
    made_for = {call.uid: call.about for call in calls if call.did == "create pods" and call.uid}
    for call in calls:
        if made_for.get(call.uid, call.about) != call.about:
            yield f"{call}: for {call.about}, and it was made for {made_for[call.uid]}"


def _left(
    wanted: Sequence[Intention], calls: Sequence[Call], left: Sequence[Event]
) -> Iterator[str]:
    """Of each release that came about: the pods that had been made for its node, and are there."""
    there = {pod["metadata"]["uid"] for pod in left if not pods.ending(pod)}
    for each in wanted:
        for call in calls:
            before = call.about == each.node and call.entry < min(each.entries)
            made = call.did == "create pods" and call.uid in there
            if each.doing == "Release" and each.came_about and made and before:
                yield f"{each}: {call.name} is there still"


def _intentions(entries: Sequence[Entry], settled: int) -> Iterator[Intention]:
    """An exam that came about is asked for again by the next driver, and is no other."""
    opened: dict[Key, set[int]] = {}
    came_about: set[Key] = set()
    for entry in entries:
        for key in [key for key, orders in opened.items() if _ends(entry.event, key, orders)]:
            if entry.sequence <= settled and _as_ordered(entry.event, key):
                came_about.add(key)
            if not key.exam:
                yield _intention(key, opened.pop(key), came_about)
                came_about.discard(key)
        for effect in entry.effects:
            if isinstance(effect, ON_NODES):
                opened.setdefault(_key(effect), set()).add(entry.sequence)
    for key, orders in opened.items():
        yield _intention(key, orders, came_about)


def _key(effect: OnNode) -> Key:
    exam = effect.number if isinstance(effect, HoldForExam) else 0
    return Key(type(effect).__name__, effect.node, exam)


def _ends(event: AnyEvent, key: Key, orders: Collection[int]) -> bool:
    """An allocation also ends where its node is given back before it came about."""
    if not isinstance(event, ENDS) or event.node != key.node:
        return False
    if key.doing == "Allocate" and isinstance(event, NodeReleased):
        return (event.cause or 0) > max(orders)
    return key.doing in ENDED_BY[type(event)] and event.cause in orders


def _as_ordered(event: AnyEvent, key: Key) -> bool:
    given_back = key.doing == "Allocate" and isinstance(event, NodeReleased)
    return not given_back and not isinstance(event, AllocationFailed)


def _intention(key: Key, orders: Collection[int], came_about: Collection[Key]) -> Intention:
    return Intention(key.doing, key.node, frozenset(orders), key in came_about)
