"""Which cause the driver named, read from what it keeps: as a hypothesis, in one word.

The words: passing, pause, point, node, link, version, group, user, blind; "" where it named none.
The rest of this file reads drivers that kept no table of hypotheses.
"""

from holdfast.driver.core.state.model import Incident, Job, Phase, State
from holdfast.protocol.faults import Blame, Kind, Rung

NODES = frozenset({Kind.NODE_LOST, Kind.EXECUTOR_LOST, Kind.DIAGNOSTIC_FAILED, Kind.KERNEL_FAULT})
PAUSES = frozenset({Kind.STANDSTILL, Kind.GOES_ON})


def named(state: State, name: str, *, spoiled_s: float = -1.0) -> str:
    """What the job's last incident was put down to. `spoiled_s`: when a restore point was last
    given up, of which the state may have forgotten by now.
    """
    job = state.jobs.get(name)
    own = [each for each in state.incidents.values() if name in each.jobs or _of_all(each)]
    if job is None or not own:
        return ""
    acted = [each for each in own if each.faults or each.rung is not Rung.NONE]
    last = max(acted or own, key=lambda each: (each.found_s, each.id))
    told = _hypothesis(last)
    if told == "group":  # whom the tests of all found is named by them
        return "link" if _parted(state, last) else "node" if last.evicted else told
    if told or not acted:
        return told or ("pause" if last.kind in PAUSES else "")
    return _by_its_words(state, job, last, spoiled=spoiled_s >= last.found_s)


def _hypothesis(incident: Incident) -> str:
    """By its table of hypotheses; "" where it has none, as of a driver that knew of no such."""
    table = getattr(incident, "table", None)
    if table is None:
        return ""
    still = [row.hypothesis for row in table.rows if row.open]  # of a job whose budget is used up
    chosen = table.chosen or next(iter(still), "")
    return {"restore-point": "point"}.get(chosen, str(chosen))


def _by_its_words(state: State, job: Job, last: Incident, *, spoiled: bool) -> str:
    if _of_all(last):
        return "blind"
    if job.phase is Phase.FAILED:
        return "user" if last.blame is Blame.USER else ""
    if _parted(state, last):
        return "link"
    if last.evicted or last.kind in NODES or _moved(job, last):
        return "node"
    if spoiled:
        return "point"
    if job.history and job.history[-1].version < job.version.number:
        return "version"
    return "user" if last.blame is Blame.USER else "passing"


def _of_all(incident: Incident) -> bool:
    """Many were not heard of at once, and nobody was accused: a loss that names nobody."""
    return incident.kind in NODES and incident.node is None and not incident.evicted


def _parted(state: State, last: Incident) -> bool:
    pairs = getattr(state, "apart", ())  # of a driver whose book had no links, nor a name for them
    links = [each for each in getattr(state, "facts", ()) if hasattr(each.subject, "source")]
    return any(each.at_s >= last.found_s for each in (*pairs, *links))


def _moved(job: Job, last: Incident) -> bool:
    moved: dict[str, float] = getattr(job, "moved", {})  # of a driver without tables
    return any(at_s >= last.found_s for at_s in moved.values())
