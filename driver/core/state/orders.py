"""What a node should be doing, worked out from the state: its `Desired`. Pure.

Called at the end of each decision for the nodes that may have been affected; an `Instruct` goes out
where the answer differs from the one before. Must not be told anything: it looks at what is.
"""

from holdfast.driver.core.state.model import Job, State
from holdfast.driver.core.state.node import Node
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
