"""An exam is over: whoever wanted it is told.

Called by `decide` for each node's results, by ticks, and where a connection ends. Pure.
"""

from collections.abc import Callable, Mapping

from holdfast.driver.core import exams
from holdfast.driver.core.events import DiagnosticEnded
from holdfast.driver.core.recovery import next_step
from holdfast.driver.core.state.model import Exam, Purpose
from holdfast.driver.core.testing import asked, diagnosis, off_the_job, standbys
from holdfast.driver.core.turn import Turn

OUT_OF_TIME = "no result came in time"


def _standby(turn: Turn, exam: Exam, late: str) -> None:
    """One that failed is a fault like another: the recovery takes it out of use."""
    (name,) = exam.suspects
    job = turn.nodes[name].job
    fault = standbys.conclude(turn, exam, late)
    if fault is not None and job is not None:
        next_step.recover(turn, job, fault)


CALLERS: Mapping[Purpose, Callable[[Turn, Exam, str], None]] = {
    Purpose.DIAGNOSIS: diagnosis.conclude,
    Purpose.REQUALIFICATION: off_the_job.conclude,
    Purpose.SUSPICION: off_the_job.conclude,
    Purpose.STANDBY: _standby,
    Purpose.ASKED: asked.conclude,
}
"""Who acts on what the nodes of an exam found; the string says why some did not answer."""


def on_ended(turn: Turn, event: DiagnosticEnded) -> None:
    """The results of one node are in."""
    exam = exams.file(turn, event)
    if exam is None:
        return
    if exam.purpose is Purpose.DIAGNOSIS and exam.job is not None:
        turn.say(f"{event.node} ended its tests", exam.job)
    if exams.complete(turn, exam):
        _conclude(turn, exam, "")


def without(turn: Turn, node: str) -> None:
    """A node that only helps is silent: its exam goes on without it, if it is nobody's."""
    known = turn.nodes[node]
    exam = turn.exams.get(known.exam or "")
    if exam is None or node in exam.suspects or known.job is not None:
        return
    exams.leave(turn, node)
    if exams.complete(turn, exam):
        _conclude(turn, exam, "")


def on_tick(turn: Turn, number: str) -> None:
    """Wait no longer for the exam, where it is out of time."""
    exam = turn.exams.get(number)
    if exam is not None and exam.until_s <= turn.now:
        _conclude(turn, exam, OUT_OF_TIME)


def _conclude(turn: Turn, exam: Exam, late: str) -> None:
    """In the affairs of whom it is about, whoever else helped."""
    alone = exam.purpose is not Purpose.DIAGNOSIS
    for _ in turn.each_node(exam.suspects[:1]) if alone else turn.each_job((exam.job or "",)):
        CALLERS[exam.purpose](turn, exam, late)
