"""Executors that come and go: by their connections, and by not coming at all.

Called by `decide` and by ticks. Pure. A connection that ends is no fault: an executor reconnects;
see `node_loss`.
"""

from msgspec.structs import replace

from holdfast.driver.core import exams
from holdfast.driver.core.attempt import quiet
from holdfast.driver.core.events import ExecutorConnected, ExecutorDisconnected
from holdfast.driver.core.faults.fault import by_executor, infrastructure
from holdfast.driver.core.handlers import exam_callers, journal_restored, node_loss
from holdfast.driver.core.job.allocation import came, drop_start, drop_unready, there
from holdfast.driver.core.recovery import next_step
from holdfast.driver.core.state.model import Job, Purpose, Timer
from holdfast.driver.core.state.node import Awaited, Broken, Connected, Held, Lent, Node, Promised
from holdfast.driver.core.testing import off_the_job
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Kind, Weight


def on_connected(turn: Turn, event: ExecutorConnected) -> None:
    node = turn.nodes.get(event.node) or Node(name=event.node)
    new = node.incarnation != event.incarnation
    if not note_connected(turn, event):
        return
    if new and not isinstance(node.holding, Lent):  # of such a node it was waited for
        exams.leave(turn, event.node, but=Purpose.DIAGNOSIS)
    off_the_job.connected(turn, event.node, new=new)
    journal_restored.act(turn, node, event)
    if new and node.job is not None:
        _ranks_died(turn, event.node, node.job, unseen=isinstance(node.link, Awaited))
    if node.job is not None:
        node_loss.end_doubt(turn, turn.jobs[node.job])
    node_loss.end_outage(turn)


def note_connected(turn: Turn, event: ExecutorConnected) -> bool:
    """It has a connection, and what it was told is known to be so much. False: that is no news."""
    node = turn.nodes.get(event.node) or turn.put_node(Node(name=event.node))
    new = node.incarnation != event.incarnation
    behind = event.generation < node.told.generation
    if node.connected and not new and not behind and node.address == event.address:
        return False
    generation = max(node.told.generation, event.generation)  # it forgot nothing, if we have
    link = Connected(incarnation=event.incarnation, address=event.address)
    turn.set_link(event.node, link)
    turn.set_told(event.node, replace(node.told, generation=generation))
    journal_restored.note(turn, node, event)
    if node.held is not None:
        tested = None if new else node.held.tested
        held = replace(node.held, came=True, tested=tested, starved_s=None)
        turn.set_holding(event.node, held)
    if behind:
        turn.resend[event.node] = None
    if node_loss.to_return(node):
        turn.returned_s = turn.now
    first = new and not node.incarnation
    turn.say(f"the executor of {event.node} is {'new' if new and not first else 'connected'}")
    return True


def on_disconnected(turn: Turn, event: ExecutorDisconnected) -> None:
    if note_disconnected(turn, event) and event.node in turn.nodes:
        exam_callers.without(turn, event.node)
        node_loss.confirm(turn, event.node)


def note_disconnected(turn: Turn, event: ExecutorDisconnected) -> bool:
    """Its connection has ended. False: that is no news."""
    node = turn.nodes.get(event.node)
    if node is None or not node.connected or node.incarnation != event.incarnation:
        return False
    turn.say(f"the executor of {event.node} has no connection")
    if node.stranger:
        forget_stranger(turn, node)
        return True
    had_come = node.job is not None and came(turn.jobs[node.job], node)
    check_s = turn.now + turn.policy.reconnect_s
    link = Broken(
        incarnation=node.incarnation,
        address=node.address,
        check_s=check_s if had_come else None,  # else it was that of whoever had the node before
        since_s=turn.now,
    )
    turn.set_link(event.node, link)
    if had_come:
        back_by(turn, event.node, check_s)
    return True


def forget_stranger(turn: Turn, node: Node) -> None:
    """Whoever has the nodes' token may give any name: it is known while it is there, no longer."""
    turn.drop_node(node.name)
    turn.say(f"{node.name} is forgotten: the cluster does not know it")


def _ranks_died(turn: Turn, node: str, name: str, *, unseen: bool) -> None:
    """A new executor has none of the ranks, nor the store, of the one before. `unseen`: that one
    ended while no driver was there to see why, as all do when their machine is shut down with it;
    that is no strike against its node.
    """
    job = turn.jobs[name]
    if job.seated and node in job.places:
        how = "ended while no driver was there" if unseen else "died"
        summary = f"the executor of {node} {how}, its ranks with it"
        told = by_executor(node, "it connected as a new process")
        fault = infrastructure(
            Kind.EXECUTOR_LOST, Weight.RESTART, summary, node, told, spared=unseen
        )
        held = turn.nodes[node].held
        if held is not None:
            turn.set_holding(node, replace(held, renewed_s=turn.now))
        next_step.recover(turn, name, fault)
    elif not job.seated:
        store = None if node == job.host else job.rendezvous
        quiet.forget(turn, job, node)
        turn.job(name, rendezvous=store)


def back_by(turn: Turn, node: str, check_s: float) -> None:
    """Have it back in its job after `check_s`, when its silence is looked at, which comes first."""
    had = turn.nodes[node].holding
    if isinstance(had, Promised | Held):
        by_s = max(had.by_s, check_s + turn.policy.reconnect_s)
        turn.set_holding(node, replace(had, by_s=by_s))


def has_time(turn: Turn, node: Node) -> bool:
    """Whether its executor is not there, and need not be yet."""
    return not node.connected and _by_s(node) > turn.now


def _by_s(node: Node) -> float:
    return node.holding.by_s if isinstance(node.holding, Promised | Held) else 0.0


def check_connect(turn: Turn, job: Job) -> None:
    """Executors that were allocated and never came: others take their places where one did. Those
    that were allocated later, or were there before, have their own time."""
    awaited = [node for node in job.members if not there(job, turn.nodes[node])]
    late = [node for node in awaited if _by_s(turn.nodes[node]) <= turn.now]
    later = (by_s for node in awaited if (by_s := _by_s(turn.nodes[node])) > turn.now)
    if (next_s := min(later, default=None)) is not None:
        turn.set_timer(job.name, Timer.CONNECT, next_s - turn.now)
    if any(came(job, turn.nodes[node]) for node in job.members):
        drop_unready(turn, job.name, late, "its executor did not come in time")
    elif late:
        within_s = turn.policy.connect_s
        drop_start(turn, job.name, late, f"none of its executors came within {within_s:g} s")
