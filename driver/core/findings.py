"""What detectors concluded, and what executors refused: which job it is for, and how grave it is.

Called by `decide`. Pure.
"""

from msgspec.structs import replace

from holdfast.driver.core import eviction, incidents, ladder
from holdfast.driver.core.events import DesiredRefused, Found, StacksFailed, StacksTaken
from holdfast.driver.core.model import Fault, Job
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Finding, Kind, Weight


def on_found(turn: Turn, event: Found) -> None:
    finding = event.finding
    fault = incidents.fault_of(finding)
    job = _job_of(turn, finding)
    if finding.weight is Weight.REPORT:
        incidents.report(turn, fault, job=job.name if job else None)
    elif job is not None:
        if _concerns(job, finding):
            _spoiling(turn, job, fault)
    elif finding.weight is Weight.CONCLUSIVE and finding.node in turn.nodes:
        _free_node(turn, finding.node, fault)
    elif finding.job is None:
        incidents.report(turn, fault)


def on_refused(turn: Turn, event: DesiredRefused) -> None:
    """An executor that will not do its newest orders: another try has a newer epoch."""
    node = turn.nodes.get(event.node)
    job = turn.jobs.get(node.job) if node and node.job else None
    if node is None or job is None or event.generation != node.generation or not job.epoch:
        return
    fault = Fault(
        kind=Kind.START_FAILED,
        weight=Weight.RESTART,
        node=event.node,
        summary=f"{event.node} refused its orders: {event.why}",
    )
    ladder.recover(turn, job.name, fault, attempt=True)


def on_stacks(turn: Turn, event: StacksTaken | StacksFailed) -> None:
    """Keep stacks with the incident that wanted them."""
    incident = turn.incidents.get(event.incident)
    if incident is None:
        return
    if isinstance(event, StacksTaken):
        turn.incident(event.incident, stacks={**incident.stacks, **event.stacks})
        turn.say(f"stacks of ranks {', '.join(map(str, event.stacks))} are taken")
    else:
        turn.touched_incident = event.incident
        turn.say(f"no stacks: {event.why}")


def _job_of(turn: Turn, finding: Finding) -> Job | None:
    name = finding.job
    if name is None and finding.node in turn.nodes:
        name = turn.nodes[finding.node].job
    job = turn.jobs.get(name) if name is not None else None
    return None if job is None or job.finished or job.parked else job


def _concerns(job: Job, finding: Finding) -> bool:
    """False for what an older epoch did, and for a node that the job has left already."""
    if finding.node is not None and finding.node not in job.members:
        return False
    if finding.weight is Weight.CONCLUSIVE:
        return True
    return job.seated and finding.epoch in (None, job.epoch)


def _spoiling(turn: Turn, job: Job, fault: Fault) -> None:
    if fault.kind is Kind.CHECKPOINT_CORRUPT:
        fault = replace(fault, spoils=True)
    ladder.recover(turn, job.name, fault)


def _free_node(turn: Turn, node: str, fault: Fault) -> None:
    """A bad node that no job uses."""
    if turn.nodes[node].quarantined:
        return
    incident = incidents.open_or_join(turn, None, fault)
    turn.say(fault.summary)
    eviction.evict(turn, node, incident.id, fault.summary)
    if not incident.waiting and not incident.outage:
        incidents.close(turn, incident.id, "no job was using the node")
