"""An exam is over: whoever wanted it is told.

Called by `decide` for each node's results, and by ticks. Pure.
"""

from collections.abc import Callable, Mapping

from holdfast.driver.core import diagnosis, exams, requalification, standbys, suspicion
from holdfast.driver.core.events import DiagnosticEnded
from holdfast.driver.core.model import Exam, Purpose
from holdfast.driver.core.turn import Turn

OUT_OF_TIME = "no result came in time"

CALLERS: Mapping[Purpose, Callable[[Turn, Exam, str], None]] = {
    Purpose.DIAGNOSIS: diagnosis.conclude,
    Purpose.REQUALIFICATION: requalification.conclude,
    Purpose.SUSPICION: suspicion.conclude,
    Purpose.STANDBY: standbys.conclude,
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
