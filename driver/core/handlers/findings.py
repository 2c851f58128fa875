"""What detectors concluded, and what executors refused: which job it is for, and how grave it is.

Called by `decide`. Pure.
"""

from msgspec.structs import replace

from holdfast.driver.core.attempt.tally import exits_of
from holdfast.driver.core.effects import TakeStacks
from holdfast.driver.core.events import DesiredRefused, Found, StacksFailed, StacksTaken
from holdfast.driver.core.faults import incidents, root_cause
from holdfast.driver.core.faults.fault import STANDSTILLS, fault_of
from holdfast.driver.core.job import eviction
from holdfast.driver.core.recovery import loss_replay, next_step
from holdfast.driver.core.state.fact import About, Bearing, Fact, OfStore
from holdfast.driver.core.state.model import Fault, Job, Timer
from holdfast.driver.core.testing import off_the_job
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.telemetry.analysis import stacks

STORES = {Kind.STORE_FAILED: Bearing.ACCUSES, Kind.STORE_BACK: Bearing.ACQUITS}
"""What a job tells of its store, that other jobs may have as well."""

KEPT_STACKS = 16
"""Nodes of which a stack is taken: enough to see who waits for whom, little enough to keep."""

ALIKE_STACKS = 4
"""Of each node where nobody is suspected: .03 s of a core each, and as much for each child."""


def on_found(turn: Turn, event: Found) -> None:
    finding = event.finding
    known = turn.nodes.get(finding.node or "")
    if finding.node is not None and (known is None or known.stranger):
        return  # it harms no job, so it is nobody's incident
    fault = fault_of(finding)
    job = _job_of(turn, finding)
    if finding.kind is Kind.COLLECTIVE_MISMATCH and job is not None and _concerns(job, finding):
        _explain(turn, job, fault)
    if finding.kind is Kind.GOES_ON and job is not None and _concerns(job, finding):
        turn.job(job.name, unlike=None, pauses=finding.pauses or job.pauses)
        _take_back(turn, turn.jobs[job.name], "its steps go on")
    if finding.weight is Weight.REPORT:
        ended = finding.job if finding.job in turn.jobs else None
        incidents.report(turn, fault, job=job.name if job else ended)
        if job is not None and fault.kind in STORES:
            _note_store(turn, job, fault.kind)
    elif job is not None:
        if _concerns(job, finding):
            _job_fault(turn, job, fault)
    elif finding.weight is Weight.CONCLUSIVE and finding.node is not None:
        _free_node(turn, finding.node, fault)
    elif finding.job is None:
        incidents.report(turn, fault)


def on_refused(turn: Turn, event: DesiredRefused) -> None:
    """An executor that will not do its newest orders: another try has a newer epoch."""
    node = turn.nodes.get(event.node)
    job = turn.jobs.get(node.job) if node and node.job else None
    if node is None or job is None or event.generation != node.told.generation or not job.epoch:
        return
    fault = Fault(
        kind=Kind.START_FAILED,
        weight=Weight.RESTART,
        node=event.node,
        summary=f"{event.node} refused its orders: {event.why}",
    )
    next_step.recover(turn, job.name, fault, attempt=True)


def on_stacks(turn: Turn, event: StacksTaken | StacksFailed) -> None:
    """Keep stacks with the incident that wanted them; what waited for them is done now."""
    incident = turn.incidents.get(event.incident)
    if incident is None:
        return
    if isinstance(event, StacksTaken):
        turn.incident(event.incident, stacks={**incident.stacks, **event.stacks})
        turn.say(stacks.told(event.stacks))
    else:
        turn.touched_incident = event.incident
        turn.say(f"no stacks: {event.why}")
    act(turn, event.job)


def act(turn: Turn, name: str) -> None:
    """Recover from what was held back until the stacks were there, or their time was over."""
    job = turn.jobs.get(name)
    if job is None or job.held is None:
        return
    turn.drop_timers(name, Timer.STACKS)
    turn.job(name, held=None)
    if job.incident is not None:  # else it went on by itself
        next_step.recover(turn, name, job.held, noted=job.incident)


def drop_unseen(turn: Turn) -> None:
    """Called as a driver takes over: what the one before it held back it has not seen, nor whether
    steps went on since. What lasts its own detectors find."""
    for name in turn.each_job(turn.jobs):
        _take_back(turn, turn.jobs[name], "a driver took over that has not seen it")


def _take_back(turn: Turn, job: Job, why: str) -> None:
    """Nothing is done about a standstill that was held back."""
    fault, incident = job.held, turn.incidents.get(job.incident or 0)
    if fault is None or fault.kind not in STANDSTILLS:
        return
    turn.drop_timers(job.name, Timer.STACKS)
    turn.job(job.name, held=None)
    turn.say(f"{fault.summary}: taken back, for {why}", job.name)
    if incident is not None and incident.faults == 1:  # else it recovers from another one
        incidents.back(turn, job.name, f"nothing was done, for {why}")


def _take_stacks(turn: Turn, job: Job, fault: Fault) -> None:
    """Look at the stuck ranks before they are ended: the suspect's, and one of each other node.
    Where nobody is suspected more of them, for one may be in another place than the rest."""
    incident = incidents.open_or_join(turn, job.name, fault)
    most = 1 if fault.rank is not None else ALIKE_STACKS
    ranks = {node: job.layout.ranks_on(node)[:most] for node in job.places[:KEPT_STACKS]}
    if fault.node is not None and fault.rank is not None:
        ranks[fault.node] = (fault.rank,)
    limit_s = turn.policy.stacks_s
    order = TakeStacks(job=job.name, incident=incident.id, ranks=ranks, limit_s=limit_s)
    turn.order(order)
    turn.incident(incident.id, table=None)  # what is done about it is not chosen yet
    turn.job(job.name, held=fault)
    turn.set_timer(job.name, Timer.STACKS, limit_s)
    turn.say(f"{fault.summary}: first take the stacks of its ranks", job.name)


def _job_of(turn: Turn, finding: Finding) -> Job | None:
    name = finding.job
    if name is None and (node := turn.nodes.get(finding.node or "")) is not None:
        name = node.job
    job = turn.jobs.get(name) if name is not None else None
    return None if job is None or job.finished or job.parked else job


def _concerns(job: Job, finding: Finding) -> bool:
    """False for what an older epoch did, and for a node that the job has left already."""
    if finding.node is not None and finding.node not in job.members:
        return False
    if finding.weight is Weight.CONCLUSIVE:
        return True
    return job.seated and finding.epoch in (None, job.epoch)


def _job_fault(turn: Turn, job: Job, fault: Fault) -> None:
    if fault.kind in STANDSTILLS:
        fault = root_cause.explained(exits_of(turn.nodes, job), fault)
    if fault.kind is Kind.LOSS:
        loss_replay.recover(turn, job, fault)
    elif fault.kind not in STANDSTILLS or not job.seated:
        next_step.recover(turn, job.name, fault)
    elif job.held is None:
        _take_stacks(turn, job, fault)


def _note_store(turn: Turn, job: Job, kind: Kind) -> None:
    """The newest word of each job stands."""
    store = OfStore(url=job.plan.task.store_url)
    about = About(job=job.name, version=job.running.number)
    turn.forget_stores(job.name)
    turn.add_fact(Fact(subject=store, what=kind, bearing=STORES[kind], about=about))


def _explain(turn: Turn, job: Job, fault: Fault) -> None:
    """Keep what explains deaths in a collective; those that wait for it are judged now."""
    turn.job(job.name, unlike=replace(fault, weight=Weight.RESTART))
    if Timer.GATHER in job.timers and root_cause.in_question(job):
        turn.set_timer(job.name, Timer.GATHER, turn.policy.gather_s)


def _free_node(turn: Turn, node: str, fault: Fault) -> None:
    """A bad node that no job uses, or one that is parked."""
    if turn.nodes[node].quarantined:
        off_the_job.object_to(turn, node, fault.summary)
        return
    job = turn.nodes[node].job
    but = f" but {job}, which is parked" if job is not None else ""  # and begins anew later
    eviction.evict_at_rest(turn, fault, f"no job was using the node{but}")
