"""How many steps an incident cost each job: what it had completed before, less where it went back.

Called by `incidents` and `epochs`. Pure. What is trained between two ways back of one incident
belongs to its recovery: neither does it raise what was completed before, nor is it lost twice.
"""

from msgspec.structs import replace

from holdfast.driver.core.model import Incident, Rollback


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


def resumed(incident: Incident, job: str, before: int) -> Incident:
    """Training is beyond `before`, the highest step of all earlier epochs."""
    known = _of(incident, job)
    return _with(incident, job, replace(known, before=max(before, known.before or 0)))


def _of(incident: Incident, job: str) -> Rollback:
    return incident.rollbacks.get(job, Rollback())


def _with(incident: Incident, job: str, rollback: Rollback) -> Incident:
    return replace(incident, rollbacks={**incident.rollbacks, job: rollback})
