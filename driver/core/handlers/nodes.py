"""Nodes as the cluster tells of them: that they are there or gone, given, given back, or marked.

Called by `decide`. Pure. What it says of a node's end is one source of two; see `node_loss`.
"""

from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Release
from holdfast.driver.core.faults.fault import infrastructure
from holdfast.driver.core.handlers import node_loss
from holdfast.driver.core.job import maintenance
from holdfast.driver.core.job.allocation import (
    bar,
    came,
    drop_unfit,
    drop_unready,
    find_unfit,
    leave,
)
from holdfast.driver.core.recovery import next_step
from holdfast.driver.core.state.node import (
    Against,
    Free,
    Gone,
    Held,
    Here,
    Lent,
    Node,
    Promised,
    Quarantined,
    Source,
    Suspect,
    Trusted,
)
from holdfast.driver.core.state.orders import mark
from holdfast.driver.core.testing import off_the_job
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Evidence, Kind, Weight

FORMER = 8
"""Machines that had a name before and are remembered: so that two that have it in turn, for
somebody's mistake, are not taken for ever new ones."""


def on_appeared(turn: Turn, event: e.NodeAppeared) -> None:
    known = turn.nodes.get(event.node) or Node(name=event.node)
    note_there(turn, event)
    if event.machine and event.machine != known.machine:
        former = (*known.former, known.machine)[-FORMER:] if known.machine else ()
        turn.set_machine(event.node, event.machine, former)
        if known.machine and event.machine not in known.former:  # else it is one that was there
            _forget_the_other(turn, turn.nodes[event.node])
    if event.unmarked and known.quarantine and known.quarantine.marked:
        _mark_again(turn, known, known.quarantine)
    _notice(turn, event)


def note_there(turn: Turn, event: e.NodeAppeared) -> None:
    """The node is there, in that rack, and closed or not."""
    known = turn.nodes.get(event.node) or Node(name=event.node)
    rack = event.rack or known.rack
    cordon = known.against.get(Source.CORDON)
    if not known.present or (known.rack, cordon.why if cordon else "") != (rack, event.closed):
        turn.put_node(known)
        turn.set_presence(event.node, Here(), rack=rack)
        cordon = Against(why=event.closed) if event.closed else None
        turn.object_to(event.node, Source.CORDON, cordon)
        closed = f", closed to new work: {event.closed}" if event.closed else ""
        again = " again" if known.gone_s is not None else ""
        turn.say(f"{event.node} is there{again}{closed}")


def _forget_the_other(turn: Turn, node: Node) -> None:
    """Another machine has the name: what was counted for and against the one before says nothing of
    it. A quarantine stands, for it may be the same fault of a shelf or a cable; its tests are due.
    """
    turn.set_record(node.name, replace(node.record, facts=()))
    turn.say(f"{node.name} is another machine now")
    if isinstance(node.trust, Suspect) and not isinstance(node.holding, Lent):
        turn.set_trust(node.name, Trusted())
    if node.quarantine is not None and node.quarantine.exam_s is not None:
        turn.set_trust(node.name, replace(node.quarantine, exam_s=turn.now))


def _mark_again(turn: Turn, node: Node, quarantine: Quarantined) -> None:
    """Its machine was made anew under its name, or somebody took our mark off: the cluster would
    put the work of others there, and nobody who looks at it would see why we do not.
    """
    turn.set_trust(node.name, replace(quarantine, marked=False))
    turn.order(mark(node.name, quarantine))
    turn.say(f"{node.name} lost the mark that it is distrusted, and gets it again")


def _notice(turn: Turn, event: e.NodeAppeared) -> None:
    """What the cluster says of maintenance, beside what people say."""
    if event.notice:
        by_s = None if event.within_s is None else turn.now + event.within_s
        maintenance.give(turn, event.node, Source.DRAIN, Against(why=event.notice, by_s=by_s))
        off_the_job.make_way(turn, event.node)
    else:
        maintenance.withdraw(turn, event.node, Source.DRAIN)


def on_fits(turn: Turn, event: e.NodeFits) -> None:
    """The job may ask for the node again, when that is its turn."""
    job = turn.jobs.get(event.job)
    if job is not None and event.node in job.unfit:
        unfit = {node: why for node, why in job.unfit.items() if node != event.node}
        turn.job(job.name, unfit=unfit)
        turn.say(f"{event.node} has room for {job.name} now")


def note_gone(turn: Turn, event: e.NodeVanished) -> bool:
    """The node is not there. False: that is no news."""
    node = turn.nodes.get(event.node)
    if node is None or not node.present:
        return False
    turn.set_presence(event.node, Gone(since_s=turn.now))
    turn.say(f"the cluster says that {event.node} is gone ({event.why or 'no reason given'})")
    return True


def on_vanished(turn: Turn, event: e.NodeVanished) -> None:
    if not note_gone(turn, event):
        return
    node_loss.confirm(turn, event.node)
    node_loss.explain_echoes(turn, event.node)
    _forget_long_gone(turn)


def _forget_long_gone(turn: Turn) -> None:
    """Else a cluster whose machines come and go is known by every name that it ever had."""
    since = turn.now - turn.policy.forget_s
    for node in list(turn.nodes.values()):
        if node.gone_s is not None and node.gone_s < since and not _kept(node):
            turn.drop_node(node.name)


def _kept(node: Node) -> bool:
    """Whether something is open with it, or against it."""
    open_words = isinstance(node.trust, Quarantined) or node.trust == Trusted(unmark=True)
    nobodys = isinstance(node.holding, Free) and not open_words
    return node.connected or not nobodys or Source.PERSON in node.against


def on_allocated(turn: Turn, event: e.NodeAllocated) -> None:
    node = turn.nodes.get(event.node)
    promise = _promise(node, event.job)
    if node is None or promise is None or _late(node, event.cause):
        return
    came, quiet = node.connected, promise.quiet
    held = Held(job=event.job, by_s=promise.by_s, came=came, quiet=quiet)
    turn.set_holding(event.node, held)
    turn.say(f"{event.node} is allocated to {event.job}")


def _promise(node: Node | None, job: str) -> Promised | None:
    """What the job was promised, where the node is still to be its."""
    promise = node.holding if node is not None else None
    return promise if isinstance(promise, Promised) and promise.job == job else None


def on_allocation_failed(turn: Turn, event: e.AllocationFailed) -> None:
    node = turn.nodes.get(event.node)
    if node is None:
        return
    if _late(node, event.cause):
        _learn_late(turn, event)
        return
    if isinstance(node.holding, Lent):
        off_the_job.put_off(turn, event.node, event.why)
    if _promise(node, event.job) is None:
        return
    if event.barred:
        bar(turn, event.job, event.node, event.why)
        return
    why = f"it could not be allocated: {event.why}"
    if event.unfit:
        _do_without(turn, event, why)
    else:
        drop_unready(turn, event.job, [event.node], why)


def _learn_late(turn: Turn, event: e.AllocationFailed) -> None:
    """A start was undone while more of its nodes were waited for, in vain: each had its turn."""
    if event.late and event.job in turn.jobs:
        why = f"it could not be allocated: {event.why}"
        find_unfit(turn, event.job, {event.node: why}, late=True)


def _do_without(turn: Turn, event: e.AllocationFailed, why: str) -> None:
    """Without the node, and without those that would be refused as well."""
    drop_unfit(turn, event.job, [event.node], why, late=event.late)
    others = {node: why for node, why in event.others.items() if node in turn.nodes}
    find_unfit(turn, event.job, others)
    members = (node for node in turn.jobs[event.job].members if node in others)
    leave(turn, *(node for node in members if not turn.nodes[node].allocated))


def on_released(turn: Turn, event: e.NodeReleased) -> None:
    node = turn.nodes.get(event.node)
    if node is None or not node.releasing or _late(node, event.cause):
        return
    turn.set_holding(event.node, Free(forget=node.forget))
    turn.say(f"{event.node} is given back")


def on_distrusted(turn: Turn, event: e.NodeDistrusted) -> None:
    node = turn.nodes.get(event.node)
    if node is not None and node.quarantine and not node.quarantine.marked:
        turn.set_trust(event.node, replace(node.quarantine, marked=True))
        turn.say(f"the cluster keeps work off {event.node}")


def on_trusted(turn: Turn, event: e.NodeTrusted) -> None:
    node = turn.nodes.get(event.node)
    if node is not None and node.trust == Trusted(unmark=True):
        turn.set_trust(event.node, Trusted())
        turn.say(f"the cluster may use {event.node} again")


def on_call_failed(turn: Turn, event: e.ClusterCallFailed) -> None:
    if event.node in turn.nodes:
        turn.set_retry(event.node, turn.now + turn.policy.retry_s)
        turn.say(f"{event.call} of {event.node} failed ({event.why}); it is tried again")


def on_ended(turn: Turn, event: e.ExecutorEnded) -> None:
    """Its place goes to a standby, to another node, or to the same one once it is given back: after
    a while, where it ended before it came, for its node may refuse the next in the same way.
    """
    node = turn.nodes.get(event.node)
    if node is not None and isinstance(node.holding, Lent):
        off_the_job.put_off(turn, event.node, event.why)
        return
    if node is None or node.job != event.job or not node.allocated:
        return
    job = turn.jobs[event.job]
    if job.parked:
        note_ended(turn, event)
        return
    if not came(job, node):
        why = f"its executor ended before it came: {event.why}"
        drop_unfit(turn, event.job, [event.node], why)
        return
    summary, told = _ended(event), Evidence(source="cluster", text=event.why)
    fault = infrastructure(
        Kind.EXECUTOR_LOST, Weight.CONCLUSIVE, summary, event.node, told, spared=True
    )
    next_step.recover(turn, event.job, fault)


def _ended(event: e.ExecutorEnded) -> str:
    return f"the cluster ended the executor of {event.job} on {event.node}: {event.why}"


def note_ended(turn: Turn, event: e.ExecutorEnded) -> None:
    """A job that is parked does without the node; it begins anew when it is looked at again."""
    node, job = turn.nodes.get(event.node), turn.jobs.get(event.job)
    has = node is not None and node.allocated and node.job == event.job
    if has and job is not None and job.parked:
        leave(turn, event.node)
        turn.say(_ended(event))


def on_lingers(turn: Turn, event: e.ExecutorLingers) -> None:
    """Have it removed, where its node is away without its consent: who still runs there is fenced
    by its epoch.

    Not while a job or an exam has the node, whose own executor would go with it.
    """
    node = turn.nodes.get(event.node)
    used = node is not None and not isinstance(node.holding, Free)
    if used or (node is not None and node.present and not event.stray):
        return
    if event.job in turn.jobs:
        turn.put_job(turn.jobs[event.job])
    turn.say(f"removed{'' if event.stray else ' by force'}: {event.why}")
    turn.order(Release(node=event.node))


def _late(node: Node, cause: int | None) -> bool:
    """True for the outcome of a call that a later one has overtaken."""
    return cause is not None and cause < node.told.called
