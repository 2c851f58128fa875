"""Nodes that come and go, as the cluster and their executors tell it.

Called by `decide`. Pure. A connection that ends is no fault: an executor reconnects. A node is gone
when two sources say so; silence alone counts only after a while, and within the brake.
"""

from holdfast.driver.core import eviction, gather, incidents, ladder, moves, putback, trials
from holdfast.driver.core.allocation import bar, drop_unfit, drop_unready, ready
from holdfast.driver.core.effects import Release
from holdfast.driver.core.events import (
    AllocationFailed,
    ClusterCallFailed,
    ExecutorConnected,
    ExecutorDisconnected,
    ExecutorEnded,
    ExecutorLingers,
    NodeAllocated,
    NodeAppeared,
    NodeDistrusted,
    NodeReleased,
    NodeTrusted,
    NodeVanished,
)
from holdfast.driver.core.model import Fault, Job, Node, Notice, Source, Timer, Wanted
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame, Evidence, Kind, Weight

# ---------------------------------------------------------------- what the cluster says


def on_appeared(turn: Turn, event: NodeAppeared) -> None:
    known = turn.nodes.get(event.node) or Node(name=event.node)
    rack = event.rack or known.rack
    if not known.present or (known.rack, known.closed) != (rack, event.closed):
        turn.put_node(known)
        turn.node(event.node, present=True, stranger=False, rack=rack, closed=event.closed)
        closed = f", closed to new work: {event.closed}" if event.closed else ""
        turn.say(f"{event.node} is there{closed}")
    _notice(turn, event)


def _notice(turn: Turn, event: NodeAppeared) -> None:
    """What the cluster says of maintenance; where a person said it here, that stands."""
    known = turn.nodes[event.node].notice
    if known is not None and known.source is Source.PERSON:
        return
    if event.notice:
        by_s = None if event.within_s is None else turn.now + event.within_s
        notice = Notice(why=event.notice, source=Source.CLUSTER, by_s=by_s)
        moves.give(turn, event.node, notice)
    elif known is not None and known.source is Source.CLUSTER:
        moves.withdraw(turn, event.node)


def on_vanished(turn: Turn, event: NodeVanished) -> None:
    node = turn.nodes.get(event.node)
    if node is None or not node.present:
        return
    turn.node(event.node, present=False)
    turn.say(f"the cluster says that {event.node} is gone ({event.why or 'no reason given'})")
    _gone(turn, event.node)
    _explain_echoes(turn, event.node)


def on_allocated(turn: Turn, event: NodeAllocated) -> None:
    node = turn.nodes.get(event.node)
    if node is None or node.job != event.job or node.allocated or _late(node, event.cause):
        return
    turn.node(event.node, allocated=True)
    turn.say(f"{event.node} is allocated to {event.job}")


def on_allocation_failed(turn: Turn, event: AllocationFailed) -> None:
    node = turn.nodes.get(event.node)
    if node is None or _late(node, event.cause):
        return
    if node.trial is not None:
        trials.put_off(turn, event.node, event.why)
    if node.job != event.job or node.allocated:
        return
    why = f"it could not be allocated: {event.why}"
    if event.barred:
        bar(turn, event.job, event.node, why)
    elif event.unfit:
        drop_unfit(turn, event.job, event.node, why)
    else:
        drop_unready(turn, event.job, [event.node], why)


def on_released(turn: Turn, event: NodeReleased) -> None:
    node = turn.nodes.get(event.node)
    if node is None or not node.releasing or _late(node, event.cause):
        return
    turn.node(event.node, releasing=False)
    turn.say(f"{event.node} is given back")


def on_distrusted(turn: Turn, event: NodeDistrusted) -> None:
    node = turn.nodes.get(event.node)
    if node is not None and node.quarantined and not node.marked:
        turn.node(event.node, marked=True)
        turn.say(f"the cluster keeps work off {event.node}")


def on_trusted(turn: Turn, event: NodeTrusted) -> None:
    node = turn.nodes.get(event.node)
    if node is not None and node.trusting:
        turn.node(event.node, trusting=False)
        turn.say(f"the cluster may use {event.node} again")


def on_call_failed(turn: Turn, event: ClusterCallFailed) -> None:
    if event.node in turn.nodes:
        turn.node(event.node, retry_s=turn.now + turn.policy.retry_s)
        turn.say(f"{event.call} of {event.node} failed ({event.why}); it is tried again")


def on_ended(turn: Turn, event: ExecutorEnded) -> None:
    """Its place goes to a standby, to another node, or to the same one once it is given back."""
    node = turn.nodes.get(event.node)
    if node is not None and node.trial is not None:
        trials.put_off(turn, event.node, event.why)
        return
    if node is None or node.job != event.job or not node.allocated:
        return
    fault = Fault(
        kind=Kind.EXECUTOR_LOST,
        weight=Weight.CONCLUSIVE,
        blame=Blame.INFRASTRUCTURE,
        node=event.node,
        summary=f"the cluster ended the executor of {event.job} on {event.node}: {event.why}",
        evidence=(Evidence(source="cluster", text=event.why),),
        spared=True,
    )
    ladder.recover(turn, event.job, fault)


def on_lingers(turn: Turn, event: ExecutorLingers) -> None:
    """Have it removed, where its node is away without its consent: who still runs there is fenced
    by its epoch.

    Not while a job or a trial has the node, whose own executor would go with it.
    """
    node = turn.nodes.get(event.node)
    if node is not None and (_has_use(node) or (node.present and not event.stray)):
        return
    if event.job in turn.jobs:
        turn.put_job(turn.jobs[event.job])
    turn.say(f"removed{'' if event.stray else ' by force'}: {event.why}")
    turn.order(Release(node=event.node))


def _has_use(node: Node) -> bool:
    """Whether somebody has the node, or had it and it is on its way back."""
    return node.job is not None or node.trial is not None or node.releasing


def _late(node: Node, cause: int | None) -> bool:
    """True for the outcome of a call that a later one has overtaken."""
    return cause is not None and cause < node.called


# ---------------------------------------------------------------- what executors say


def on_connected(turn: Turn, event: ExecutorConnected) -> None:
    node = turn.nodes.get(event.node) or turn.put_node(Node(name=event.node, stranger=True))
    new = node.incarnation != event.incarnation
    behind = event.generation < node.generation
    if node.connected and not new and not behind and node.address == event.address:
        return
    turn.node(
        event.node,
        connected=True,
        left=False,
        incarnation=event.incarnation,
        address=event.address,
        silent_check_s=None,
    )
    if behind:
        turn.resend[event.node] = None
    if _to_return(node):
        turn.returned_s = turn.now
    first = new and not node.incarnation
    turn.say(f"the executor of {event.node} is {'new' if new and not first else 'connected'}")
    if new:
        turn.node(event.node, selftest=None, tested=None)
    putback.learn(turn, event)
    if new and node.job is not None:
        _ranks_died(turn, event.node, node.job)
    if node.job is not None:
        _end_doubt(turn, turn.jobs[node.job])
    _end_outage(turn)


def on_disconnected(turn: Turn, event: ExecutorDisconnected) -> None:
    node = turn.nodes.get(event.node)
    if node is None or not node.connected or node.incarnation != event.incarnation:
        return
    turn.say(f"the executor of {event.node} has no connection")
    if node.stranger:
        forget_stranger(turn, node)
        return
    turn.node(event.node, connected=False, left=True)
    if node.job is not None:
        turn.node(event.node, silent_check_s=turn.now + turn.policy.reconnect_s)
    _gone(turn, event.node)


def forget_stranger(turn: Turn, node: Node) -> None:
    """Whoever has the nodes' token may give any name: it is known while it is there, no longer."""
    turn.drop_node(node.name)
    turn.say(f"{node.name} is forgotten: the cluster does not know it")


def away(turn: Turn, job: Job) -> list[str]:
    """Its nodes that may be gone: not there, or without a connection."""
    known = [turn.nodes[name] for name in job.nodes]
    return [node.name for node in known if not (node.present and node.connected)]


def lose_missed(turn: Turn, job: Job) -> bool:
    """Lose nodes of which the cluster says that they are gone, and whose peers say the same."""
    missed = [name for name in job.nodes if not turn.nodes[name].present]
    for name in missed:
        echo = next(exited for exited in job.exits if gather.failed(exited.status))
        text = f"rank {echo.status.rank} there lost a peer"
        peers = Evidence(source=f"executor of {echo.node}", text=text)
        ladder.recover(turn, job.name, _loss(name, peers))
    return bool(missed)


def _explain_echoes(turn: Turn, node: str) -> None:
    """What ranks that lost a peer wait for: no connection has to end before that is believed.

    After a driver was restarted nothing was connected, so nothing ends; the peers' word is enough.
    """
    job = turn.jobs.get(turn.nodes[node].job or "")
    if job is not None and Timer.DOUBT in job.timers and gather.only_echoes(job.exits):
        lose_missed(turn, job)


def _end_doubt(turn: Turn, job: Job) -> None:
    """All are back: what they know of their ranks comes now, or there is nothing to know."""
    if Timer.DOUBT in job.timers and not away(turn, job):
        turn.set_timer(job.name, Timer.DOUBT, turn.policy.echo_s)


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
        ladder.recover(turn, name, fault)
    elif not job.seated:
        store = None if node == job.host else job.rendezvous
        turn.job(name, quiet=quiet, rendezvous=store)


# ---------------------------------------------------------------- gone, or silent


def _gone(turn: Turn, name: str) -> None:
    """Act once the cluster and the connection agree that the node is gone."""
    node = turn.nodes[name]
    if node.present or not node.left:
        return
    trials.object_to(turn, name, "it went away")
    if node.job is not None:
        ladder.recover(turn, node.job, _loss(name, _no_connection(name)))


def _no_connection(name: str) -> Evidence:
    return Evidence(source="driver", text=f"the executor of {name} has no connection")


def _loss(name: str, second: Evidence) -> Fault:
    """The cluster says that it is gone, and so does a second source."""
    return Fault(
        kind=Kind.NODE_LOST,
        weight=Weight.CONCLUSIVE,
        blame=Blame.INFRASTRUCTURE,
        node=name,
        summary=f"{name} is lost",
        evidence=(Evidence(source="cluster", text=f"{name} is gone"), second),
    )


def check_silence(turn: Turn) -> None:
    """Executors that were away too long: within the brake their nodes go, above it nobody does.

    While executors still come back to a driver that took over, those that have not are late, for
    there are many of them, and not silent.
    """
    due = [n.name for n in turn.nodes.values() if n.silent_check_s and n.silent_check_s <= turn.now]
    if not due:
        return
    held = [node for node in turn.nodes.values() if node.job and not _may_go(turn, node.job)]
    silent = [node.name for node in held if not node.connected]
    cap = eviction.cap(turn, turn.policy.silence_share)
    outage = len(silent) == len(held) or len(silent) > cap
    for name in due:
        node = turn.nodes[name]
        if node.job is None or node.connected:
            turn.node(name, silent_check_s=None)
        elif _may_go(turn, node.job):
            turn.node(name, silent_check_s=turn.now + turn.policy.reconnect_s)
        elif not node.present:
            ladder.recover(turn, node.job, _loss(name, _no_connection(name)))
        elif _to_return(node) and turn.now < (late_s := turn.returned_s + turn.policy.reconnect_s):
            turn.node(name, silent_check_s=late_s)
        elif outage or eviction.too_many(turn, silent=True):
            turn.node(name, silent_check_s=turn.now + turn.policy.reconnect_s)
            _note_outage(turn, silent, len(held))
        else:
            ladder.recover(turn, node.job, _silence(turn, node))


def _may_go(turn: Turn, job: str) -> bool:
    """Whether the job is to end or to rest, for now: its executors go, with a last word or without
    one, and what does not become quiet in time is left.
    """
    return turn.jobs[job].wanted is not Wanted.RUN


def _to_return(node: Node) -> bool:
    """Whether its executor was not here yet since this driver took over."""
    return node.silent_check_s is not None and not (node.connected or node.left)


def _silence(turn: Turn, node: Node) -> Fault:
    text = f"no executor connected for {turn.policy.reconnect_s:g} s"
    return Fault(
        kind=Kind.EXECUTOR_LOST,
        weight=Weight.CONCLUSIVE,
        blame=Blame.INFRASTRUCTURE,
        node=node.name,
        summary=f"{node.name} stays silent",
        evidence=(Evidence(source="driver", text=text),),
        silent=True,
    )


def _note_outage(turn: Turn, silent: list[str], held: int) -> None:
    if any(incident.outage and incident.open for incident in turn.incidents.values()):
        return
    summary = f"{len(silent)} of {held} nodes are silent at once: more than may be evicted for it"
    fault = Fault(
        kind=Kind.EXECUTOR_LOST,
        weight=Weight.CONCLUSIVE,
        blame=Blame.INFRASTRUCTURE,
        summary=summary,
    )
    incident = incidents.open_or_join(turn, None, fault)
    turn.incident(incident.id, outage=True, closed_s=None, nodes=tuple(silent))
    turn.say(f"{summary}; nobody is evicted")


def _end_outage(turn: Turn) -> None:
    """Close the outage once everybody who is needed is heard again."""
    outages = [i for i in turn.incidents.values() if i.outage and i.open]
    if not outages:
        return
    if any(node.job is not None and not node.connected for node in turn.nodes.values()):
        return
    for incident in outages:
        turn.incident(incident.id, outage=False)
        if not incident.waiting:
            incidents.close(turn, incident.id, "all are heard again")


def check_connect(turn: Turn, name: str) -> None:
    """Executors that were allocated and never came: others take their places."""
    job = turn.jobs[name]
    turn.drop_timers(name, Timer.CONNECT)
    late = [node for node in job.members if _never_came(job, turn.nodes[node])]
    drop_unready(turn, name, late, "its executor did not come in time")


def _never_came(job: Job, node: Node) -> bool:
    at_work = job.seated and node.name in job.places
    known = node.name in job.quiet or node.name in job.ending
    return not (at_work or known or ready(node))
