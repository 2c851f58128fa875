"""What was seen about when a fault came, as signs of it: words of the kernel, and of its ranks.

Called by `incidents`. Pure. Such words are only reported where they come: a healthy node says some
of them too. Where something ended there within the same minute they tell what it was.
"""

from collections.abc import Iterable

from holdfast.driver.core.state.model import Fault, Incident, Job
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Kind

NEAR_S = 60.0
"""A kernel writes before its process is gone, and a daemon tells within a heartbeat; a rank that
prints an error ends once its peers' timeouts are over, or never."""
WORDS = frozenset({Kind.KERNEL_FAULT, Kind.LOG_KEYWORD})


def before(turn: Turn, job: Job | None, fault: Fault) -> Iterable[str]:
    """Signs of what was reported lately of its node, or of its job."""
    for each in turn.incidents.values():
        told = each.kind in WORDS and not each.faults and _near(turn, each)
        if told and _concerns(each, fault.node, job):
            yield from each.signs


def after(turn: Turn, report: Fault, job: Job | None) -> Iterable[Incident]:
    """Incidents of lately that this report may be of."""
    if report.kind not in WORDS:
        return
    for each in turn.incidents.values():
        if each.faults and _near(turn, each) and _same(each, report, job):
            yield each


def _near(turn: Turn, incident: Incident) -> bool:
    last_s = incident.found_s if incident.again_s is None else incident.again_s
    return turn.now - last_s <= NEAR_S


def _concerns(report: Incident, node: str | None, job: Job | None) -> bool:
    """The kernel speaks of a node, a rank of its job. Who names no node may mean any of the job."""
    if report.kind is Kind.LOG_KEYWORD:
        return job is not None and job.name in report.jobs
    known = (node,) if node is not None else job.nodes if job is not None else ()
    return report.node in known


def _same(incident: Incident, report: Fault, job: Job | None) -> bool:
    if report.kind is Kind.LOG_KEYWORD:
        return job is not None and job.name in incident.jobs
    return report.node is not None and report.node in (incident.node, *incident.nodes)
