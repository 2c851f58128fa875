"""Moments from which on a job did something else, and the lives of jobs that consist of them. Pure.

Made of journal entries. A name that was deleted and given again is another life.
"""

from collections.abc import Mapping

import msgspec

from holdfast.driver.core import events as e
from holdfast.driver.noted import Doing
from holdfast.driver.ports import Entry


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A moment in driver seconds, what the job does from then on, and what was told with it."""

    at_s: float
    doing: Doing
    ages_s: Mapping[str, float] = {}  # of ranks: how long ago each stage of their start was over
    before: int | None = None  # the furthest step of earlier attempts
    done: int | None = None  # the last step that all ranks of an attempt had completed as it ended
    stalled_s: float | None = None  # how long what was found had lasted


class Life(msgspec.Struct, kw_only=True):
    """One job. `whole`: its entries are known from the one that submitted it."""

    job: str
    number: int  # sequence of the entry that submitted it, or of the first one that is known
    whole: bool
    marks: list[Mark] = []


def take(lives: dict[str, list[Life]], entry: Entry) -> None:
    """Add what the entry says to the lives of its jobs, by name, the newest last."""
    for name, doing in entry.doing.items():
        own = lives.setdefault(name, [])
        submitted = isinstance(entry.event, e.JobSubmitted) and entry.event.job == name
        if submitted or not own:
            own.append(Life(job=name, number=entry.sequence, whole=submitted))
        marks = own[-1].marks
        # A journal that was put back from a backup may have times that were there before.
        at_s = max(entry.now, marks[-1].at_s) if marks else entry.now
        marks.append(_mark(entry, doing, at_s))


def _mark(entry: Entry, doing: Doing, at_s: float) -> Mark:
    match entry.event:
        case e.ProgressSeen(starts_s=ages_s, before=before):
            return Mark(at_s=at_s, doing=doing, ages_s=ages_s, before=before)
        case e.StepsRepeated(starts_s=ages_s):
            return Mark(at_s=at_s, doing=doing, ages_s=ages_s)
        case e.RanksExited(step=step):
            return Mark(at_s=at_s, doing=doing, done=step)
        case e.Found(finding=found):
            return Mark(at_s=at_s, doing=doing, done=found.step, stalled_s=found.stalled_s)
        case _:
            return Mark(at_s=at_s, doing=doing)
