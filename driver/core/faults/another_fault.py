"""Whether a fault is another than the one that its job is still recovering from.

Called by `incidents`. Pure. A job recovers from an incident until it is as far as it was, which may
take long after its ranks run again; what happens to it meanwhile may have nothing to do with that.
"""

from holdfast.driver.core.faults import site
from holdfast.driver.core.state.model import Fault, Incident, Job, Phase
from holdfast.protocol.faults import Blame, Kind, Weight


def is_another(job: Job, incident: Incident, fault: Fault) -> bool:
    """True where ranks ran again, and somebody else is at fault now."""
    if not _ran_again(job, incident) or fault.kind is Kind.START_FAILED:
        return False  # it may come of how the job was started again
    if fault.node is None or incident.node is None:
        return False  # the cause of the one may be the other's
    if site.known(job, fault) or (fault.kind is incident.kind and _doubtful(fault)):
        return False
    if fault.rank is None or incident.rank is None:
        return fault.node != incident.node
    return fault.rank != incident.rank  # one that dies elsewhere, too, was not cured


def _doubtful(fault: Fault) -> bool:
    """Who of the ranks is at fault may be chance: a suspicion, or a mistake in a script that all of
    them run."""
    return fault.weight is Weight.SUSPECT or fault.blame is Blame.USER


def _ran_again(job: Job, incident: Incident) -> bool:
    return job.phase is Phase.RUNNING and job.held is None and incident.restored_s is not None
