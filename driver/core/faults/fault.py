"""A fault as the recovery takes it: what it shows, where in its script it was, and whether it is
another than the one that its job is still recovering from.

Made of what detectors found and of what the machines conclude; called by the recovery and by
`incidents`. Pure. Two faults at one site may have one cause. A job recovers from an incident until
it is as far as it was, which may take long after its ranks run again; what happens to it meanwhile
may have nothing to do with that.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from holdfast.driver.core.evidence import signs
from holdfast.driver.core.state.fact import FaultClass, Site
from holdfast.driver.core.state.model import Fault, Incident, Job, Phase, Signature
from holdfast.driver.core.state.restore_point import Where
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame, Evidence, Finding, Kind, Weight


def fault_of(finding: Finding) -> Fault:
    """A detector's finding. What both have has the same name in both."""
    fault = msgspec.convert(finding, Fault, from_attributes=True)
    told = finding.summary or f"{finding.kind} on {finding.node or finding.job}"
    return shows(replace(fault, summary=told), finding.sign)


def shows(fault: Fault, *names: str) -> Fault:
    """The fault with these signs, or that of its kind, and whom they blame: nobody else says so."""
    shown = tuple(filter(None, names)) or (signs.of_kind(fault.kind),)
    return replace(fault, signs=shown, blame=signs.judge(shown).blame)


def infrastructure(
    kind: Kind,
    weight: Weight,
    summary: str,
    node: str | None = None,
    *evidence: Evidence,
    silent: bool = False,
    spared: bool = False,
    sign: str = "",
) -> Fault:
    """What is nobody's doing who trains; `node`: whose it is."""
    fault = Fault(
        kind=kind,
        weight=weight,
        summary=summary,
        node=node,
        evidence=evidence,
        silent=silent,
        spared=spared,
    )
    return shows(fault, sign)


def by_executor(node: str, text: str) -> Evidence:
    """What the executor of a node tells."""
    return Evidence(source=f"executor of {node}", text=text)


# ---------------------------------------------------------------- where it was

SAID = frozenset({Kind.USER_EXCEPTION, Kind.ENDED_EARLY, Kind.OUT_OF_MEMORY})
"""What scripts tell of themselves; also whatever is the user's, and exit codes."""
STANDSTILLS = frozenset({Kind.HANG, Kind.NO_PROGRESS})
"""What is concluded of not hearing, while nobody has said anything; stacks tell more about it."""
NO_SITE = frozenset(
    {Kind.JOURNAL_PUT_BACK, Kind.DEFECT, Kind.MAINTENANCE, Kind.REQUESTED, Kind.NODE_PROBLEM}
)
"""What has nothing to do with how far ranks were."""


def class_of(fault: Fault) -> FaultClass:
    """Who told of it."""
    if fault.kind is Kind.LOSS:
        return FaultClass.FIGURES
    if fault.kind in STANDSTILLS:
        works = fault.spot and not fault.stuck
        return FaultClass.STOOD if works else FaultClass.DIED
    if signs.judge(fault.signs).outside_script:
        return FaultClass.DIED
    end = fault.signature
    code = end is not None and end.how.startswith("exit code")
    said = fault.kind in SAID or fault.blame is Blame.USER or code
    return FaultClass.SAID if said else FaultClass.DIED


def site_of(job: Job, fault: Fault) -> Site | None:
    """Where it was in the script; None where it says nothing of that. What befalls a job again and
    again that nobody sees getting on is taken for the same.
    """
    start = job.restore.step if job.restore is not None else 0
    if fault.spot:
        return Site(words=fault.spot)
    if fault.kind is Kind.LOSS:
        return Site(words=fault.kind, step=fault.sound)
    if fault.signature is not None:
        return _of_end(fault.signature, start)
    if fault.kind in STANDSTILLS | {Kind.OUT_OF_MEMORY} and fault.step is not None:
        return Site(words=fault.kind, step=fault.step, fresh=fault.step <= start)
    unseen = class_of(fault) is FaultClass.DIED and fault.kind not in NO_SITE and not job.progressed
    if unseen and fault.step is not None and fault.step > start:  # no start is to blame for that
        return Site(words=fault.kind, step=fault.step)
    return Site(words=fault.kind, fresh=True) if unseen else None


def _of_end(end: Signature, start: int) -> Site | None:
    """Of a signal from outside, so many steps after a start, nobody knows the place: the script may
    have gone on from a checkpoint of its own. Who has made no step yet is where it started, and has
    not told yet how it counts."""
    if end.outside and end.relative and end.step:
        return None
    relative = end.relative and bool(end.step or not start)
    first = 0 if relative else start
    step = max(end.step, first)
    return Site(words=end.how, step=step, fresh=step == first, relative=relative)


def from_memory(job: Job) -> bool:
    """Whether its ranks started from a snapshot of their own."""
    return job.restore is not None and job.restore.where is Where.MEMORY


def is_another(job: Job, incident: Incident, fault: Fault) -> bool:
    """True where ranks ran again, and somebody else is at fault now."""
    if not _ran_again(job, incident) or fault.kind is Kind.START_FAILED:
        return False  # it may come of how the job was started again
    if fault.node is None or incident.node is None:
        return False  # the cause of the one may be the other's
    if _known(job, fault) or (fault.kind is incident.kind and _doubtful(fault)):
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


def _known(job: Job, fault: Fault) -> bool:
    """Whether the same end came already, before this one is noted, or may come of its start."""
    site = site_of(job, fault)
    if site is None or (site.fresh and from_memory(job)):
        return site is not None
    sites = (fact.about.site for fact in job.facts if fault.signature is not None)
    return any(site.same(each) and each.passed_s is None for each in sites if each)


# ---------------------------------------------------------------- what was seen about when it came
#
# Words of the kernel, and of its ranks, are only reported where they come: a healthy node says some
# of them too. Where something ended there within the same minute they tell what it was.

NEAR_S = 60.0
"""A kernel writes before its process is gone, and a daemon tells within a heartbeat; a rank that
prints an error ends once its peers' timeouts are over, or never."""
WORDS = frozenset({Kind.KERNEL_FAULT, Kind.LOG_KEYWORD})


def seen_before(turn: Turn, job: Job | None, fault: Fault) -> Iterable[str]:
    """Signs of what was reported lately of its node, or of its job."""
    for each in turn.incidents.values():
        told = each.kind in WORDS and not each.faults and _near(turn, each)
        if told and _concerns(each, fault.node, job):
            yield from each.signs


def seen_after(turn: Turn, report: Fault, job: Job | None) -> Iterable[Incident]:
    """Incidents of lately that this report may be of."""
    if report.kind not in WORDS:
        return
    for each in turn.incidents.values():
        if each.faults and _near(turn, each) and _is_of(each, report, job):
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


def _is_of(incident: Incident, report: Fault, job: Job | None) -> bool:
    if report.kind is Kind.LOG_KEYWORD:
        return job is not None and job.name in incident.jobs
    return report.node is not None and report.node in (incident.node, *incident.nodes)
