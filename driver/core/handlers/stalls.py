"""A driver that stood still: who was waited for meanwhile has so much longer.

Called by `decide` for `Stalled`. Pure. Nobody is blamed for what was not heard while nobody
listened; what the outside keeps to (a person's deadline, a notice) stays as it is.
"""

from msgspec.structs import replace

from holdfast.driver.core import exams
from holdfast.driver.core.events import Stalled
from holdfast.driver.core.recovery.case_of import note_back
from holdfast.driver.core.state.model import Exam, Job, Timer
from holdfast.driver.core.state.node import Held, Node, Promised
from holdfast.driver.core.turn import Turn

OUTSIDE = frozenset({Timer.DEADLINE, Timer.MOVE, Timer.TTL})
"""Deadlines that do not wait for anybody's word: they pass while the driver stands still, too."""


def on_stalled(turn: Turn, event: Stalled) -> None:
    """Move each deadline at which somebody is judged for silence. It is said where there is one, or
    ranks that were not heard meanwhile."""
    unseen = note_back(turn)
    later = Later(turn, event.stood_s)
    for name in turn.each_job(turn.jobs):
        later.job(turn.jobs[name])
    for name in turn.each_node(turn.nodes):
        later.node(turn.nodes[name])
    for exam in turn.exams.values():
        later.exam(exam)
    if turn.returned_s:
        turn.returned_s = min(turn.now, turn.returned_s + event.stood_s)
    if turn.touched_jobs or turn.touched_nodes:
        turn.say(
            f"the driver stood still for {event.stood_s:.1f} s: "
            "what it waits for has so much longer"
        )
    elif unseen:
        turn.say(f"the driver stood still for {event.stood_s:.1f} s, and saw no ranks meanwhile")


class Later:
    """By how much: the whole standstill, and time to read what came in it."""

    def __init__(self, turn: Turn, stood_s: float) -> None:
        self._turn = turn
        self._stood_s = stood_s
        policy = turn.policy
        self._soonest_s = turn.now + min(policy.catch_up_s, policy.catch_up_share * stood_s)

    def at(self, due_s: float) -> float:
        return max(due_s + self._stood_s, self._soonest_s)

    def job(self, job: Job) -> None:
        waits = {timer: at for timer, at in job.timers.items() if timer not in OUTSIDE}
        if waits:
            moved = {timer: self.at(at) for timer, at in waits.items()}
            self._turn.job(job.name, timers={**job.timers, **moved})

    def node(self, node: Node) -> None:
        if node.silent_check_s is not None:
            self._turn.look_at_silence(node.name, self.at(node.silent_check_s))
        self.held(node)

    def held(self, node: Node) -> None:
        held = node.holding
        there = isinstance(held, Held) and held.came and node.connected
        if isinstance(held, Promised | Held) and not there:
            self._turn.set_holding(node.name, replace(held, by_s=self.at(held.by_s)))

    def exam(self, exam: Exam) -> None:
        exams.later(self._turn, exam, self.at(exam.until_s))
