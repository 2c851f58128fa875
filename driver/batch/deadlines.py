"""What is waited for until when, and who is due; the next deadline of a state that changes is kept
beside it, so that no commit costs a look through all of it.

Kept by the loop, which sends a `Ticked` at that time, and by the simulated driver, which holds it
against `next_deadline`. Pure, but for what `Deadlines` keeps; what follows from a tick the core
decides.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal

from holdfast.driver.core.events import AnyEvent, Ticked
from holdfast.driver.core.state.model import Job, State
from holdfast.driver.core.state.node import Node, Trusted
from holdfast.driver.core.testing import off_the_job

MOST_TURNS = 32
"""Of a tick, for jobs and for exams. A turn looks at all jobs: one each for 1,000 that were due at
once took .7 to 3.6 s here, in shares .03 to .15 s."""

LEAST_STALE = 1_000
"""So many that hold no longer may be kept, and as many as there are that hold."""

_Subject = tuple[Literal["job", "node"], str]

# ---------------------------------------------------------------- who is due


def turns_of(state: State, event: AnyEvent, now: float) -> Iterable[AnyEvent]:
    """The event as what is decided of it, one after the other: a tick is a turn for each who is
    due, everything else one."""
    return due(state, now) if event == Ticked() else (event,)


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


# ---------------------------------------------------------------- until when


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
    """`nodes`: those of the state that are tested off their jobs, or wait for it, at least. What
    a person asked may have no node any more whose deadline it is."""
    yield from (exam.until_s for exam in state.exams.values() if exam.asked is not None)
    following = off_the_job.following(nodes, state.exams, state.brake)
    yield from (due_s for due_s in map(off_the_job.due_s, following) if due_s is not None)


# ---------------------------------------------------------------- the next one


def next_deadline(state: State) -> float | None:
    """The earliest deadline in the state, in driver seconds; None where nothing is waited for."""
    jobs = chain.from_iterable(map(of_job, state.jobs.values()))
    nodes = chain.from_iterable(of_node(state, node) for node in state.nodes.values())
    return min((*jobs, *nodes, *of_exams(state, state.nodes)), default=None)


class Deadlines:
    """Those of a state that changes; beside it, and made anew from any state.

    A look costs what has changed and no pass over thousands of nodes. What holds no longer stays in
    the heap until it comes up, or until it is half of all.
    """

    def __init__(self, state: State) -> None:
        self._due: dict[_Subject, float] = {}
        self._heap: list[tuple[float, _Subject]] = []
        self._tried: dict[str, None] = {}  # nodes that are tested, or wait for it
        self._next_s: tuple[float | None] | None = None  # once it was asked for
        self.follow(state, state.jobs, state.nodes)

    def follow(self, state: State, jobs: Iterable[str], nodes: Iterable[str]) -> None:
        """The state is now this one, and of no others than these jobs and nodes it has changed."""
        self._state, self._next_s = state, None
        for name in jobs:
            job = state.jobs.get(name)
            self._put(("job", name), of_job(job) if job is not None else ())
        for name in nodes:
            self._follow_node(name, state.nodes.get(name))
        if len(self._heap) > 2 * len(self._due) + LEAST_STALE:
            self._heap = [(due_s, subject) for subject, due_s in self._due.items()]
            heapq.heapify(self._heap)

    def next_s(self) -> float | None:
        """As `next_deadline` of the state that was followed last."""
        if self._next_s is None:
            self._next_s = (self._first_s(),)
        return self._next_s[0]

    def _first_s(self) -> float | None:
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        tried = {name: self._state.nodes[name] for name in self._tried}
        first = [self._heap[0][0]] if self._heap else []
        return min((*first, *of_exams(self._state, tried)), default=None)

    def _follow_node(self, name: str, node: Node | None) -> None:
        self._put(("node", name), of_node(self._state, node) if node is not None else ())
        if node is not None and not isinstance(node.trust, Trusted):
            self._tried[name] = None
        else:
            self._tried.pop(name, None)

    def _put(self, subject: _Subject, deadlines: Iterable[float]) -> None:
        due_s = min(deadlines, default=None)
        if due_s is None:
            self._due.pop(subject, None)
        elif self._due.get(subject) != due_s:
            self._due[subject] = due_s
            heapq.heappush(self._heap, (due_s, subject))
