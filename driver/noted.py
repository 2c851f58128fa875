"""What each entry of the journal notes, for who reads the journal alone: what jobs are doing from
then on, what it changed that people want to be told of, and whether it is news at all. Pure.

Made from the states before and after a decision by whoever writes that down. A job does one thing
at a time, so that its time can be split (`people.goodput`); whoever tells people needs the journal
alone, and misses nothing when the driver is killed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Literal

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Incident, Job, Phase, State
from holdfast.driver.core.state.value import Value


class What(StrEnum):
    """Each is a bucket of `people.goodput` or is split into several of them there."""

    QUEUED = "queued"  # no node is meant for it yet
    SUSPENDED = "suspended"  # a person has put it aside
    WAIT = "wait"  # nodes are missing, or on their way
    RENDEZVOUS = "rendezvous"  # its ranks have yet to know where they meet and where they begin
    FORK = "fork"  # they are being started
    BEGIN = "begin"  # all run; nobody has seen a step yet that is new, or that is done again
    REPEAT = "repeat"  # they do again what was done before
    TRAIN = "train"  # they are further than ever
    DECIDE = "decide"  # a rank has ended, or stacks are taken: what it was is not judged yet
    STOP = "stop"  # ranks are being ended
    SAVE = "save"  # its last step is on its way to the store
    DIAGNOSE = "diagnose"  # its nodes are tested
    OVER = "over"


class Doing(Value, frozen=True):
    """What a job does from an entry on, in which attempt, and to recover from what."""

    what: What
    attempt: int = 0
    since: int | None = None  # the step that the attempt's ranks were given; None: none
    incident: int | None = None
    kind: str = ""  # of the incident, and the node that it names
    node: str = ""
    stalled_s: float = 0.0  # how long the incident's first fault had lasted when it was found


def doing_of(job: Job, incident: Incident | None) -> Doing:
    """`incident`: the one that it recovers from, or of which it still does steps again."""
    doing = Doing(
        what=_what(job, incident),
        attempt=job.attempt,
        since=job.restore.step if job.restore is not None else None,
    )
    if incident is None or job.finished:
        return doing
    return Doing(
        what=doing.what,
        attempt=doing.attempt,
        since=doing.since,
        incident=incident.id,
        kind=incident.kind.value,
        node=incident.node or "",
        stalled_s=incident.stalled_s,
    )


def doings(
    before: State, after: State, jobs: Iterable[str], incident: int | None
) -> dict[str, Doing]:
    """What jobs do from now on, of those that did something else before. Looked at are `jobs`, and
    those that `incident` hit."""
    known = after.incidents.get(incident or 0)
    names = dict.fromkeys((*jobs, *(known.jobs if known is not None else ())))
    then = {name: _in(before, name) for name in names}
    now = {name: _in(after, name) or Doing(what=What.OVER) for name in names}
    return {
        name: doing
        for name, doing in now.items()
        if doing != then[name] and not _is_over(before, name) and (then[name] or name in after.jobs)
    }


def _in(state: State, name: str) -> Doing | None:
    job = state.jobs.get(name)
    if job is None:
        return None
    return doing_of(job, state.incidents.get(job.incident or job.repeating or 0))


def _is_over(state: State, name: str) -> bool:
    job = state.jobs.get(name)
    return job is not None and job.finished


def _what(job: Job, incident: Incident | None) -> What:
    match job.phase:
        case Phase.STARTING | Phase.RESTORING:
            return What.FORK if job.seated else What.RENDEZVOUS
        case Phase.RUNNING:
            return _run(job, incident)
        case Phase.SUSPENDING:
            return What.SAVE if job.save is not None and not job.tally.ending else What.STOP
        case Phase.PENDING:
            return What.QUEUED if incident is None else What.WAIT
        case Phase.ALLOCATING | Phase.REPLACING:
            return What.WAIT
        case Phase.DIAGNOSING:
            return What.DIAGNOSE
        case Phase.SUSPENDED:
            return What.SUSPENDED
        case Phase.SUCCEEDED | Phase.FAILED | Phase.STOPPED:
            return What.OVER


def _run(job: Job, incident: Incident | None) -> What:
    if job.failed_s is not None or job.held is not None:
        return What.DECIDE
    if job.progressed:
        return What.TRAIN
    own = incident is not None and incident.jobs == (job.name,)  # else the step may be another's
    began = own and incident is not None and incident.stepped_s is not None
    return What.REPEAT if began else What.BEGIN


# ---------------------------------------------------------------- what people are told of

Whose = Literal["job", "incident", "node", "brake"]
EVICTED, BACK = "evicted", "back"
FOUND, CLOSED = "found", "over"
ON, OFF = "on", "off"
DELETED = "Deleted"
"""Of a job that is gone; else `now` is one of its phases."""


class Turned(Value, frozen=True):
    """`name` is a job's, a node's, an incident's number, or "". `why`: in a sentence."""

    what: Whose
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
        *_turned_jobs(before, after, jobs, why),
        *_turned_incidents(before.incidents, after.incidents),
        *_turned_nodes(before, after, nodes),
        *_turned_brake(before, after),
    )


def _turned_jobs(before: State, after: State, names: Iterable[str], why: str) -> Iterator[Turned]:
    for name in dict.fromkeys(names):
        was, now = before.jobs.get(name), after.jobs.get(name)
        old = was.phase.value if was is not None else ""
        new = now.phase.value if now is not None else DELETED if was is not None else ""
        if old != new:
            said = now.why if now is not None and now.why else why
            yield Turned(what="job", name=name, before=old, now=new, why=said, jobs=(name,))


def _turned_incidents(
    before: Mapping[int, Incident], after: Mapping[int, Incident]
) -> Iterator[Turned]:
    if before is after:
        return
    for number, each in after.items():
        known = before.get(number)
        if known is each or (known is not None and known.open == each.open):
            continue
        if known is None:
            yield _turned_incident(each, FOUND, "", each.summary)
        if not each.open:
            yield _turned_incident(each, CLOSED, FOUND, each.outcome or each.summary)


def _turned_incident(each: Incident, now: str, before: str, why: str) -> Turned:
    return Turned(
        what="incident", name=str(each.id), before=before, now=now, why=why, jobs=each.jobs
    )


def _turned_nodes(before: State, after: State, names: Iterable[str]) -> Iterator[Turned]:
    for name in dict.fromkeys(names):
        was, now = before.nodes.get(name), after.nodes.get(name)
        old = was.quarantine if was is not None else None
        new = now.quarantine if now is not None else None
        if old is None and new is not None:
            yield Turned(what="node", name=name, now=EVICTED, why=new.why)
        elif old is not None and new is None:
            yield Turned(what="node", name=name, before=EVICTED, now=BACK, why=old.why)


def _turned_brake(before: State, after: State) -> Iterator[Turned]:
    if before.brake.on != after.brake.on:
        words = (OFF, ON) if after.brake.on else (ON, OFF)
        yield Turned(what="brake", name="", before=words[0], now=words[1], why=after.brake.why)


# ---------------------------------------------------------------- what is no news


RESTATED: Mapping[type[e.Event], str] = {
    e.NodeAllocated: r"\S+ is allocated to \S+",
    e.NodeReleased: r"\S+ is given back",
    e.NodeDistrusted: r"the cluster keeps work off \S+",
    e.NodeTrusted: r"the cluster may use \S+ again",
    e.NodeAppeared: r"\S+ is there",
    e.NodeQuiet: r"no earlier rank is left on \S+|\S+ is quiet",
    e.CheckpointStored: r"(the checkpoint of )?step \d+ is in the store",
    e.RendezvousReady: r"the (rendezvous of attempt|store of epoch) \d+ listens on \S+",
    e.RanksRunning: r"the ranks on \S+ run",
    e.RanksExited: r"rank [\d, ]+ on \S+ ended",
    e.ExecutorConnected: r"(the|every) executor of \S+ is (new|connected)",
    e.DiagnosticEnded: r"\S+ ended its tests",
    e.FasterSeen: r"\S+ is faster than ever: .*",
}
"""What the core says of the event itself: it was neither decided nor is it news to a reader. With
the words of older drivers, whose journals are told alike."""

TOLD = (e.RanksExited, e.DiagnosticEnded)
"""Of these a story has what was seen as well."""


def restates(event: e.Event, why: str, incident: int | None) -> bool:
    """Whether an entry with these is no news to a reader, whatever other entries say. One of an
    incident may have opened it, and tells to which one ends of ranks belong."""
    kind = type(event)
    known = RESTATED.get(kind)
    if known is None or kind in TOLD or incident is not None:
        return False
    return all(re.fullmatch(known, part) for part in why.split("; ") if part)
