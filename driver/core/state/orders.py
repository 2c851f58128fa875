"""What a state wants done of a node: what it should be doing, its `Desired`, and which calls to the
cluster are open. Pure.

The first is asked at the end of each decision for the nodes that may have been affected; an
`Instruct` goes out where the answer differs from the one before. The calls are asked for when a
driver takes over, and when one has failed; all are idempotent: some may have been done by the
driver before. Must not be told anything: it looks at what is.
"""

from holdfast.driver.core.effects import Allocate, AnyEffect, Distrust, HoldForExam, Release, Trust
from holdfast.driver.core.state.model import Job, State
from holdfast.driver.core.state.node import Lent, Node, Promised, Quarantined, Trusted
from holdfast.protocol.messages import Desired, DiagnosticOrder


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
        restore=job.restore.order if seated and job.restore else None,
        stop=job.stop,
        save=None if seated else job.save,
        diagnostics=_tests_of(state, node),
    )


def _tests_of(state: State, node: Node) -> tuple[DiagnosticOrder, ...]:
    exam = state.exams.get(node.exam) if node.exam else None
    return exam.orders.get(node.name, ()) if exam is not None else ()


def orders_key(job: Job) -> tuple[object, ...]:
    """What the desired states of all its nodes depend on: equal means that no node is affected."""
    return (job.epoch, job.seats, job.restore, job.stop, job.save)


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
