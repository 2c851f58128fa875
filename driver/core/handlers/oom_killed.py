"""Executors that were killed for memory, their ranks with them: the job's own doing, no node's.

Called by `decide`, and by `node_loss` for the time that such a container may take to come back.
Pure. Where a kernel kills all of a container at once nobody in it is left to say so; the cluster
does, as a rule before the new executor connects. Where that came first, what it was taken for is
amended.
"""

from msgspec.structs import replace

from holdfast.driver.core.events import ExecutorStarved
from holdfast.driver.core.faults import incidents, root_cause
from holdfast.driver.core.faults.fault import shows
from holdfast.driver.core.job.allocation import came
from holdfast.driver.core.recovery import next_step
from holdfast.driver.core.state.model import Fault, Job
from holdfast.driver.core.state.node import Held, Node
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Evidence, Kind, Weight

LATE_S = 30.0
"""How much later than the executor's next connection the cluster may say why the one before ended:
a kubelet writes it before it starts the container again, and its write may wait."""


def on_starved(turn: Turn, event: ExecutorStarved) -> None:
    node, job = turn.nodes.get(event.node), turn.jobs.get(event.job)
    if node is None or job is None or node.job != job.name or not came(job, node):
        return
    fault = _fault(event)
    held = node.held
    if held and held.renewed_s is not None and turn.now - held.renewed_s <= LATE_S:
        _amend(turn, job, node, held, fault)
        return
    if held:
        turn.set_holding(node.name, replace(held, starved_s=turn.now))
    if job.seated and node.name in job.places:
        next_step.recover(turn, job.name, fault)
    else:
        turn.say(fault.summary, job.name)


def may_come(turn: Turn, node: Node) -> bool:
    """Whether its container may still be waiting to be started again: the oftener one ends, the
    longer its node waits.
    """
    at_s = node.held.starved_s if node.held else None
    return at_s is not None and turn.now < at_s + turn.policy.connect_s


def _fault(event: ExecutorStarved) -> Fault:
    lack = root_cause.memory(event.limit_bytes)
    text = f"the container of {event.job} on {event.node} was killed for memory"
    fault = Fault(
        kind=Kind.OUT_OF_MEMORY,
        weight=Weight.RESTART,
        node=event.node,
        summary=f"all ranks on {event.node} were killed for memory: {lack}",
        evidence=(Evidence(source="cluster", text=text),),
    )
    return shows(fault)


def _amend(turn: Turn, job: Job, node: Node, held: Held, fault: Fault) -> None:
    """The executor that died lately died of this: nothing of it is its node's, the user pays."""
    at_s = held.renewed_s
    facts = tuple(fact for fact in node.record.facts if fact.at_s != at_s)
    record = replace(node.record, facts=facts)
    turn.set_holding(node.name, replace(held, renewed_s=None))
    turn.set_record(node.name, record)
    incidents.explain(turn, job, fault)
    turn.say(fault.summary, job.name)
