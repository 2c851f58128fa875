"""What a job is doing, in one word, and for whose sake: what its journal entries tell of its time.

Made from the states before and after a decision by whoever writes that down; read by
`people.goodput`. Pure. A job does one thing at a time, so that its time can be split.
"""

from collections.abc import Iterable
from enum import StrEnum

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
