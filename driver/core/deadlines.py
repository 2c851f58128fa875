"""What is waited for until when, and who is due. Pure.

The loop keeps the earliest, see `batch.deadlines`, and sends a `Ticked` at that time.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from holdfast.driver.core.events import Ticked
from holdfast.driver.core.state.model import Job, State
from holdfast.driver.core.state.node import Node
from holdfast.driver.core.testing import off_the_job

MOST_TURNS = 32
"""Of a tick, for jobs and for exams. A turn looks at all jobs: one each for 1,000 that were due at
once took .7 to 3.6 s here, in shares .03 to .15 s."""


def due(state: State, now: float) -> Iterator[Ticked]:
    """One turn for each who is due, so that a defect in one is no other's, and each has its entry.
    Nodes share the last one: silence is judged of all that are silent together, and of thousands
    each would cost a look at all jobs."""
    jobs = [name for name, job in state.jobs.items() if min(of_job(job), default=now + 1) <= now]
    yield from (Ticked(jobs=names) for names in _shares(jobs))
    exams = [number for number, exam in state.exams.items() if exam.until_s <= now]
    yield from (Ticked(exams=numbers) for numbers in _shares(exams))
    yield Ticked()


def _shares(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Each for itself, or where they are many in so many shares."""
    size = math.ceil(len(names) / MOST_TURNS)
    return (tuple(names[k : k + size]) for k in range(0, len(names), size or 1))


def of_job(job: Job) -> Iterator[float]:
    if job.parked:  # nothing else of it is looked at
        yield job.backoff.until_s if job.backoff is not None else job.since_s
        return
    yield from job.timers.values()
    for unfit in job.unfit.values():
        yield unfit.until_s
    if job.barred is not None:
        yield job.barred.until_s


def of_node(state: State, node: Node) -> Iterator[float]:
    if node.silent_check_s is not None:
        yield node.silent_check_s
    if node.retry_s is not None:
        yield node.retry_s
    yield from (why.until_s for why in node.against.values() if why.until_s is not None)
    if node.exam is not None and node.exam in state.exams:
        yield state.exams[node.exam].until_s


def of_exams(state: State, nodes: Mapping[str, Node]) -> Iterator[float]:
    """`nodes`: those of the state that are tested off their jobs, or wait for it, at least."""
    following = off_the_job.following(nodes, state.exams, state.brake)
    yield from (due_s for due_s in map(off_the_job.due_s, following) if due_s is not None)
