"""How many steps an incident cost each job: what it had completed before, less where it went back.

Called by `incidents` and `epochs`. Pure. What is trained between two ways back of one incident
belongs to its recovery: neither does it raise what was completed before, nor is it lost twice.
Where the job was still doing steps again for an incident before, only what it had done of these is
lost to this one: how far it had ever been counts for the first.
"""

from msgspec.structs import replace

from holdfast.driver.core.state.model import Incident, Rollback


def reached(incident: Incident, job: str, step: int | None) -> Incident:
    """The job is known to have completed `step`; it counts until its first way back."""
    known = _of(incident, job)
    if step is None or known.restored is not None:
        return incident
    return _with(incident, job, replace(known, before=max(step, known.before or 0)))


def went_back(incident: Incident, job: str, step: int) -> Incident:
    """The job's ranks start from `step`: the furthest way back counts."""
    known = _of(incident, job)
    lowest = step if known.restored is None else min(step, known.restored)
    return _with(incident, job, replace(known, restored=lowest))


def went_back_unseen(incident: Incident, job: str, saved: int) -> Incident:
    """Its script began again, which had saved step `saved` by itself, and may go on from it."""
    back = went_back(incident, job, saved)
    return _with(back, job, replace(_of(back, job), unseen=saved > 0))


def catching_up(incident: Incident, job: str, reached: int | None) -> Incident:
    """The job was doing steps again for an incident before this one, and had done those up to
    `reached`; None: not known."""
    return _with(incident, job, Rollback(before=reached, again=True))


def furthest(incident: Incident, job: str, before: int) -> Incident:
    """The highest step of all earlier epochs is known to be `before`."""
    known = _of(incident, job)
    if known.again:
        return incident
    return _with(incident, job, replace(known, before=max(before, known.before or 0)))


def _of(incident: Incident, job: str) -> Rollback:
    return incident.rollbacks.get(job, Rollback())


def _with(incident: Incident, job: str, rollback: Rollback) -> Incident:
    return replace(incident, rollbacks={**incident.rollbacks, job: rollback})
