"""The driver's effects, joined with what the API server and the executors saw of them. Pure.

Used by `witnesses`. An effect that nobody saw end is ordered again by the next driver, so an effect
here is an *intention*: all orders of it, from the first to the event that it ended in.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.driver.core.effects import Allocate, Distrust, Instruct
from holdfast.driver.core.events import AllocationFailed, NodeAllocated, NodeDistrusted
from holdfast.driver.ports import Entry
from holdfast.lab.demo.writers import READS
from holdfast.lab.on_kubernetes import DRIVER
from holdfast.protocol.forks import Fork

Event = Mapping[str, Any]
"""Of an audit log."""

ACTING = re.compile(r"holdfast-driver \(term=(\d+) entry=(\d+) (\w+) ([\w.-]+)\)")

TERM = re.compile(r"\(term=(\d+) ")


class Call(NamedTuple):
    """What the driver said, in its User-Agent, that a request follows from."""

    term: int
    entry: int
    doing: str
    about: str


class Intention(NamedTuple):
    """One effect on a node: the journal entries that ordered it, and whether it came about."""

    node: str
    entries: frozenset[int]
    came_about: bool


def by_driver(event: Event) -> bool:
    return bool(event["user"].get("username") == DRIVER)


def forbidden(event: Event) -> bool:
    """Refused for want of a right; of other refusals the code says nothing like it."""
    decision = event.get("annotations", {}).get("authorization.k8s.io/decision")
    return bool(decision == "forbid")


def did(event: Event) -> str:
    """`verb resource` or `verb resource/subresource`."""
    about = event.get("objectRef", {})
    what = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    return f"{event['verb']} {what}"


def changed(event: Event) -> bool:
    """A driver changed something with it."""
    return by_driver(event) and event["verb"] not in READS and was_done(event)


def term_of(event: Event) -> int | None:
    """Of the driver that asked for it; None where it did not say."""
    said = TERM.search(event.get("userAgent", ""))
    return int(said[1]) if said else None


def late_terms(terms: Sequence[int]) -> list[str]:
    """Terms that come after a later one, in words."""
    newest, late = 0, []
    for term in terms:
        newest = max(newest, term)
        late += [f"term {term} after term {newest}"] * (term < newest)
    return list(dict.fromkeys(late))


def carried_out(audited: Sequence[Event], what: str) -> list[Call]:
    """Calls behind each `what` of the driver that the API server did; unnamed ones as entry 0."""
    done = [each for each in audited if by_driver(each) and did(each) == what and was_done(each)]
    return [_call(each) for each in done]


def intentions(entries: Sequence[Entry], kind: type[Allocate | Distrust]) -> list[Intention]:
    """Every effect of this kind in the journal, in the order in which they were first ordered."""
    return list(_intentions(entries, kind))


def wrong_calls(calls: Sequence[Call], wanted: Sequence[Intention], what: str) -> list[str]:
    """Where calls and intentions are not one to one, in sentences."""
    said = []
    of_entry = {(entry, each.node): each for each in wanted for entry in each.entries}
    known = Counter(of_entry.get((call.entry, call.about)) for call in calls)
    if strays := known.pop(None, 0):
        said.append(f"{strays} times {what} without an entry of the journal that orders it")
    for each in wanted:
        if known[each] > 1 or (each.came_about and known[each] == 0):
            ordered = ", ".join(map(str, sorted(each.entries)))
            said.append(f"{known[each]} times {what} for {each.node}, ordered by entry {ordered}")
    return said


def wrong_forks(forked: Sequence[Fork], entries: Sequence[Entry]) -> list[str]:
    """Ranks that were forked twice in an epoch, or by nobody's order, in sentences."""
    ordered = {
        (effect.desired.node, effect.desired.term, effect.desired.generation, effect.desired.epoch)
        for entry in entries
        for effect in entry.effects
        if isinstance(effect, Instruct)
    }
    said = [
        f"rank {rank} was forked {count} times in epoch {epoch}"
        for (rank, epoch), count in Counter((each.rank, each.epoch) for each in forked).items()
        if count > 1
    ]
    strays = [
        each
        for each in forked
        if (each.node, each.term, each.generation, each.epoch) not in ordered
    ]
    return said + [f"{each.node} forked rank {each.rank} by nobody's order" for each in strays]


def _intentions(entries: Sequence[Entry], kind: type[Allocate | Distrust]) -> Iterator[Intention]:
    ends = (NodeAllocated, AllocationFailed) if kind is Allocate else (NodeDistrusted,)
    opened: dict[str, set[int]] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, ends) and event.node in opened and event.cause in opened[event.node]:
            came_about = not isinstance(event, AllocationFailed)
            yield Intention(event.node, frozenset(opened.pop(event.node)), came_about)
        for effect in entry.effects:
            if isinstance(effect, kind):
                opened.setdefault(effect.node, set()).add(entry.sequence)
    for node, ordered in opened.items():
        yield Intention(node, frozenset(ordered), came_about=False)


def was_done(event: Event) -> bool:
    """The API server did what it was asked."""
    return event.get("responseStatus", {}).get("code", 0) in range(200, 300)


def _call(event: Event) -> Call:
    said = ACTING.fullmatch(event.get("userAgent", ""))
    if said is None:
        return Call(0, 0, "", event.get("objectRef", {}).get("name", ""))
    return Call(int(said[1]), int(said[2]), said[3], said[4])
