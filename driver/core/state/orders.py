"""What a state wants done of a node: what it should be doing, its `Desired`, and which calls to the
cluster are open. Pure.

The first is asked at the end of each decision for the nodes that may have been affected; an
`Instruct` goes out where the answer differs from the one before. The calls are asked for when a
driver takes over, and when one has failed; all are idempotent: some may have been done by the
driver before. Must not be told anything: it looks at what is.
"""

from msgspec.structs import replace

from holdfast.driver.core.effects import Allocate, AnyEffect, Distrust, HoldForExam, Release, Trust
from holdfast.driver.core.state.layout import distance
from holdfast.driver.core.state.model import Job, State
from holdfast.driver.core.state.node import Connected, Lent, Node, Promised, Quarantined, Trusted
from holdfast.driver.core.state.restore_point import Where
from holdfast.protocol.messages import Desired, DiagnosticOrder, Peer, Restore, Snapshot


def desired_of(state: State, node: Node) -> Desired:
    """The whole desired state of `node`."""
    job = state.jobs.get(node.job) if node.job is not None else None
    if job is None:
        return Desired(
            node=node.name,
            generation=node.told.generation,
            term=state.term,
            epoch=node.told.epoch,
            forget_job=node.forget,
            diagnostics=_tests_of(state, node),
        )
    seated = bool(job.seats) and node.name not in job.standbys
    return Desired(
        node=node.name,
        generation=node.told.generation,
        term=state.term,
        epoch=max(job.epoch, node.told.epoch),
        job=job.name,
        attempt=job.attempt if seated else 0,
        task=job.plan.task,
        seats=job.seats if seated else (),
        host_rendezvous=node.name == job.rendezvous_host,
        rendezvous=job.rendezvous if seated else None,
        restore=_restore(state, job, node) if seated else None,
        peer=_partner(state, job, node) if seated else None,
        because=_because(state, job) if seated else "",
        stop=job.stop,
        save=None if seated else job.save,
        diagnostics=_tests_of(state, node),
    )


def _because(state: State, job: Job) -> str:
    """What its ranks were started again for, in the words of its incident; "" of no fault."""
    number = job.history[-1].incident if job.history else None
    incident = state.incidents.get(number) if number is not None else None
    return f"incident {incident.id}: {incident.summary}" if incident is not None else ""


def _restore(state: State, job: Job, node: Node) -> Restore | None:
    """What its ranks start from; with who has it of those whose snapshot is not here."""
    if job.restore is None:
        return None
    order = job.restore.order
    if job.restore.where is not Where.MEMORY or not job.plan.task.peer_interval_steps:
        return order
    here = _snapshots(node, job)
    wanted = {
        rank: Snapshot(rank=rank, step=order.step, epoch=order.epoch)
        for rank in job.layout.ranks_on(node.name)
    }
    others = [state.nodes[name] for name in job.members if name != node.name]
    peers = {
        rank: peer
        for rank, one in wanted.items()
        if one not in here
        for other in others
        if one in _snapshots(other, job) and (peer := _peer(other, job))
    }
    return replace(order, peers=peers)


def _partner(state: State, job: Job, node: Node) -> Peer | None:
    """Where its ranks' snapshots are copied to."""
    places, layout = job.places, job.layout
    if not job.plan.task.peer_interval_steps or node.name not in places:
        return None
    far = distance(layout.topology, len(places), layout.ranks_per_node)
    other = places[(places.index(node.name) + far) % len(places)]
    return _peer(state.nodes[other], job) if other not in ("", node.name) else None


def _snapshots(node: Node, job: Job) -> tuple[Snapshot, ...]:
    quiet = node.quiet_in(job.epoch)
    return quiet.snapshots if quiet else ()


def _peer(node: Node, job: Job) -> Peer | None:
    quiet, link = node.quiet_in(job.epoch), node.link
    if quiet is None or not quiet.peer_port or not isinstance(link, Connected):
        return None
    return Peer(address=link.address, port=quiet.peer_port)


def _tests_of(state: State, node: Node) -> tuple[DiagnosticOrder, ...]:
    exam = state.exams.get(node.exam) if node.exam else None
    return exam.orders.get(node.name, ()) if exam is not None else ()


def orders_key(job: Job) -> tuple[object, ...]:
    """What the desired states of all its nodes depend on: equal means that no node is affected."""
    return (job.epoch, job.version.number, job.seats, job.restore, job.stop, job.save)


def calls_for(node: Node) -> list[AnyEffect]:
    """The calls to the cluster that are open for one node. What it is told is not among them: a new
    term orders that anew.
    """
    calls: list[AnyEffect] = []
    if isinstance(node.holding, Promised):
        calls.append(Allocate(job=node.holding.job, node=node.name))
    setup = None if isinstance(node.trust, Trusted) else node.trust.setup
    if isinstance(node.holding, Lent) and setup:  # asked again it is no other
        number = node.told.called
        calls.append(HoldForExam(job=setup.job, node=node.name, number=number, spec=setup.spec))
    if node.releasing:
        calls.append(Release(node=node.name))
    if node.quarantine and not node.quarantine.marked:
        calls.append(mark(node.name, node.quarantine))
    if node.trust == Trusted(unmark=True):
        calls.append(Trust(node=node.name))
    return calls


def mark(node: str, quarantine: Quarantined) -> Distrust:
    """Have the cluster keep work off a quarantined node."""
    return Distrust(node=node, incident=quarantine.incident or 0, reason=quarantine.why)
