"""Epochs that were given, and that a journal lacks which was put back from a backup. Pure.

Asked by `epochs` for each new one, and told by `journal_restored` once somebody has followed one.
An epoch that is given twice would put two lines of training under one name in the store.
"""

from msgspec.structs import replace

from holdfast.driver.core.state.model import Attempt, Job
from holdfast.driver.core.state.node import Awaited
from holdfast.driver.core.turn import Turn

LOST = 1_000
"""So many epochs are taken for lost, and not given again: others than those who have come back by
now may have followed later ones."""


def give(turn: Turn) -> int:
    """The next epoch. The first one of a term leaves out those that may be lost, while an executor
    of before is still away: only once all are back is it known that nobody has followed one.
    """
    if turn.fenced < turn.term and any(isinstance(n.link, Awaited) for n in turn.nodes.values()):
        jobs = [job.name for job in turn.jobs.values() if job.history]
        leave_out(turn, turn.epoch + LOST, jobs)
    turn.fenced = turn.term
    turn.epoch += 1
    return turn.epoch


def leave_out(turn: Turn, last: int, jobs: list[str]) -> None:
    """Give none up to `last`. What these jobs have of them is theirs."""
    first, turn.epoch, turn.fenced = turn.epoch + 1, last, turn.term
    for name in turn.each_job(jobs, parked=True):
        note(turn, turn.jobs[name], first, last)


def note(turn: Turn, job: Job, first: int, last: int) -> None:
    """What any of these epochs saved may be of the job's line."""
    if job.finished or any(attempt.has(last) for attempt in job.history):
        return
    before, newest = job.history[:-1], job.history[-1:]
    if newest and _goes_on(newest[0], first):
        turn.job(job.name, history=(*before, replace(newest[0], epoch=last)))
    else:
        lost = Attempt(epoch=last, first=first, version=job.version.number)
        turn.job(job.name, history=(*job.history, lost))


def _goes_on(newest: Attempt, first: int) -> bool:
    """Whether it is of lost epochs, too, and nothing ran since: else each term would add one. What
    was given in between was given to other jobs.
    """
    return newest.first is not None and newest.end is None and newest.epoch < first
