"""Executors that come and go: by their connections, and by not coming at all.

Called by `decide` and by ticks. Pure. A connection that ends is no fault: an executor reconnects;
see `gone`.
"""

from holdfast.driver.core import gone, ladder, putback
from holdfast.driver.core.allocation import came, drop_start, drop_unready, there
from holdfast.driver.core.events import ExecutorConnected, ExecutorDisconnected
from holdfast.driver.core.model import Fault, Node, Timer
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame, Evidence, Kind, Weight


def on_connected(turn: Turn, event: ExecutorConnected) -> None:
    node = turn.nodes.get(event.node) or turn.put_node(Node(name=event.node, stranger=True))
    new = node.incarnation != event.incarnation
    behind = event.generation < node.generation
    if node.connected and not new and not behind and node.address == event.address:
        return
    turn.node(
        event.node,
        connected=True,
        came=node.allocated,
        left=False,
        generation=max(node.generation, event.generation),  # it has forgotten nothing, if we have
        incarnation=event.incarnation,
        address=event.address,
        starved_s=None,
        silent_check_s=None,
    )
    if behind:
        turn.resend[event.node] = None
    if gone.to_return(node):
        turn.returned_s = turn.now
    first = new and not node.incarnation
    turn.say(f"the executor of {event.node} is {'new' if new and not first else 'connected'}")
    if new:
        turn.node(event.node, selftest=None, tested=None)
    putback.learn(turn, event)
    if new and node.job is not None:
        _ranks_died(turn, event.node, node.job)
    if node.job is not None:
        gone.end_doubt(turn, turn.jobs[node.job])
    gone.end_outage(turn)


def on_disconnected(turn: Turn, event: ExecutorDisconnected) -> None:
    node = turn.nodes.get(event.node)
    if node is None or not node.connected or node.incarnation != event.incarnation:
        return
    turn.say(f"the executor of {event.node} has no connection")
    if node.stranger:
        forget_stranger(turn, node)
        return
    had_come = node.job is not None and came(turn.jobs[node.job], node)
    turn.node(event.node, connected=False, left=True)
    if had_come:  # else it was that of whoever had the node before
        turn.node(event.node, silent_check_s=turn.now + turn.policy.reconnect_s)
    gone.gone(turn, event.node)


def forget_stranger(turn: Turn, node: Node) -> None:
    """Whoever has the nodes' token may give any name: it is known while it is there, no longer."""
    turn.drop_node(node.name)
    turn.say(f"{node.name} is forgotten: the cluster does not know it")


def _ranks_died(turn: Turn, node: str, name: str) -> None:
    """A new executor has none of the ranks, nor the store, of the one before."""
    job = turn.jobs[name]
    quiet = {other: held for other, held in job.quiet.items() if other != node}
    if job.seated and node in job.places:
        summary = f"the executor of {node} died, its ranks with it"
        evidence = Evidence(source=f"executor of {node}", text="it connected as a new process")
        fault = Fault(
            kind=Kind.EXECUTOR_LOST,
            weight=Weight.RESTART,
            blame=Blame.INFRASTRUCTURE,
            node=node,
            summary=summary,
            evidence=(evidence,),
        )
        turn.node(node, renewed_s=turn.now)
        ladder.recover(turn, name, fault)
    elif not job.seated:
        store = None if node == job.host else job.rendezvous
        turn.job(name, quiet=quiet, rendezvous=store)


def check_connect(turn: Turn, name: str) -> None:
    """Executors that were allocated and never came: others take their places where one did."""
    job = turn.jobs[name]
    turn.drop_timers(name, Timer.CONNECT)
    late = [node for node in job.members if not there(job, turn.nodes[node])]
    if any(came(job, turn.nodes[node]) for node in job.members):
        drop_unready(turn, name, late, "its executor did not come in time")
    elif late:
        within_s = turn.policy.connect_s
        drop_start(turn, name, late, f"none of its executors came within {within_s:g} s")
