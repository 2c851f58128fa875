"""The next deadline of a state that changes, beside it: no look through all of it at each commit.

Kept by the loop, and by the simulated driver, which holds it against `next_deadline`. Must not
decide: which deadlines there are the core says.
"""

import heapq
from collections.abc import Iterable
from itertools import chain
from typing import Literal

from holdfast.driver.core.deadlines import of_exams, of_job, of_node
from holdfast.driver.core.state.model import State
from holdfast.driver.core.state.node import Node, Trusted

LEAST_STALE = 1_000
"""So many that hold no longer may be kept, and as many as there are that hold."""

_Subject = tuple[Literal["job", "node"], str]


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
        self.follow(state, state.jobs, state.nodes)

    def follow(self, state: State, jobs: Iterable[str], nodes: Iterable[str]) -> None:
        """The state is now this one, and of no others than these jobs and nodes it has changed."""
        self._state = state
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
