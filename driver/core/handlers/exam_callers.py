"""An exam is over: whoever wanted it is told.

Called by `decide` for each node's results, and by ticks. Pure.
"""

from collections.abc import Callable, Mapping

from holdfast.driver.core import exams
from holdfast.driver.core.events import DiagnosticEnded
from holdfast.driver.core.recovery import ladder
from holdfast.driver.core.state.model import Exam, Purpose
from holdfast.driver.core.testing import diagnosis, off_the_job, standbys
from holdfast.driver.core.turn import Turn

OUT_OF_TIME = "no result came in time"


def _standby(turn: Turn, exam: Exam, late: str) -> None:
    """One that failed is a fault like another: the ladder takes it out of use."""
    (name,) = exam.suspects
    job = turn.nodes[name].job
    fault = standbys.conclude(turn, exam, late)
    if fault is not None and job is not None:
        ladder.recover(turn, job, fault)


CALLERS: Mapping[Purpose, Callable[[Turn, Exam, str], None]] = {
    Purpose.DIAGNOSIS: diagnosis.conclude,
    Purpose.REQUALIFICATION: off_the_job.conclude,
    Purpose.SUSPICION: off_the_job.conclude,
    Purpose.STANDBY: _standby,
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
        CALLERS[exam.purpose](turn, exam, "")


def on_tick(turn: Turn) -> None:
    """Wait no longer for what is out of time."""
    due = {exam.id: exam for exam in exams.overdue(turn)}
    jobs = {exam.job: exam for exam in due.values() if exam.purpose is Purpose.DIAGNOSIS}
    for name in turn.each_job(job for job in jobs if job is not None):
        CALLERS[Purpose.DIAGNOSIS](turn, jobs[name], OUT_OF_TIME)
    alone = {exam.suspects[0]: exam for exam in due.values() if exam not in jobs.values()}
    for node in turn.each_node(alone):
        CALLERS[alone[node].purpose](turn, alone[node], OUT_OF_TIME)
