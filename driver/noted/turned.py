"""What an entry of the journal changed that people want to be told of. Pure.

Noted with each entry as it is drafted, so that whoever tells people needs the journal alone, and
misses nothing when the driver is killed.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from holdfast.driver.core.state.model import Incident, State
from holdfast.driver.core.state.value import Value

What = Literal["job", "incident", "node", "brake"]
EVICTED, BACK = "evicted", "back"
FOUND, OVER = "found", "over"
ON, OFF = "on", "off"
DELETED = "Deleted"
"""Of a job that is gone; else `now` is one of its phases."""


class Turned(Value, frozen=True):
    """`name` is a job's, a node's, an incident's number, or "". `why`: in a sentence."""

    what: What
    name: str
    now: str
    before: str = ""
    why: str = ""
    jobs: tuple[str, ...] = ()


def turned(
    before: State, after: State, *, jobs: Iterable[str], nodes: Iterable[str], why: str
) -> tuple[Turned, ...]:
    """From one state to the next. `jobs` and `nodes`: those that the entry is about."""
    return (
        *_jobs(before, after, jobs, why),
        *_incidents(before.incidents, after.incidents),
        *_nodes(before, after, nodes),
        *_brake(before, after),
    )


def _jobs(before: State, after: State, names: Iterable[str], why: str) -> Iterator[Turned]:
    for name in dict.fromkeys(names):
        was, now = before.jobs.get(name), after.jobs.get(name)
        old = was.phase.value if was is not None else ""
        new = now.phase.value if now is not None else DELETED if was is not None else ""
        if old != new:
            said = now.why if now is not None and now.why else why
            yield Turned(what="job", name=name, before=old, now=new, why=said, jobs=(name,))


def _incidents(before: Mapping[int, Incident], after: Mapping[int, Incident]) -> Iterator[Turned]:
    if before is after:
        return
    for number, each in after.items():
        known = before.get(number)
        if known is each or (known is not None and known.open == each.open):
            continue
        if known is None:
            yield _incident(each, FOUND, "", each.summary)
        if not each.open:
            yield _incident(each, OVER, FOUND, each.outcome or each.summary)


def _incident(each: Incident, now: str, before: str, why: str) -> Turned:
    return Turned(
        what="incident", name=str(each.id), before=before, now=now, why=why, jobs=each.jobs
    )


def _nodes(before: State, after: State, names: Iterable[str]) -> Iterator[Turned]:
    for name in dict.fromkeys(names):
        was, now = before.nodes.get(name), after.nodes.get(name)
        old = was.quarantine if was is not None else None
        new = now.quarantine if now is not None else None
        if old is None and new is not None:
            yield Turned(what="node", name=name, now=EVICTED, why=new.why)
        elif old is not None and new is None:
            yield Turned(what="node", name=name, before=EVICTED, now=BACK, why=old.why)


def _brake(before: State, after: State) -> Iterator[Turned]:
    if before.brake.on != after.brake.on:
        words = (OFF, ON) if after.brake.on else (ON, OFF)
        yield Turned(what="brake", name="", before=words[0], now=words[1], why=after.brake.why)
