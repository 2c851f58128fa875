"""Points that a job's ranks could start from: where each is, how far it is to be trusted, and
which one is best. Pure.

Made by `known_points` of what nodes and stores have told. The choice knows nothing of jobs, and
says why it is what it is.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from holdfast.driver.core.state.value import Value
from holdfast.protocol.messages import Restore


class Where(StrEnum):
    """What has a point."""

    MEMORY = "memory"  # of the nodes whose ranks saved it
    STORE = "store"


class Sealed(Value, frozen=True, tag=True):
    """Some ranks have it, and not all: none can start from it."""


class Whole(Value, frozen=True, tag=True):
    """Every rank has it where it will run, or the store has all of it."""


class Verified(Value, frozen=True, tag=True):
    """Ranks have started from it, and got further than any had been."""


class Tainted(Value, frozen=True, tag=True):
    """It is not to be started from."""

    why: str
    since_s: float | None = None  # None: by what was told last, which may be told otherwise
    after: int | None = None  # nor is what was saved after this step, up to it


Status = Sealed | Whole | Verified | Tainted


class RestorePoint(Value, frozen=True):
    """A saved step. Nodes and stores know it by `step` and `epoch`; of which attempt, layout and
    version of the job it is the driver knows. 0: an earlier Holdfast did.
    """

    step: int
    epoch: int  # whose ranks saved it
    where: Where
    status: Status = Whole()
    attempt: int = 0
    layout: int = 0
    version: int = 1
    written_s: float | None = None  # when that was told; None: it was only found

    @property
    def saved(self) -> tuple[int, int]:
        return self.step, self.epoch

    @property
    def usable(self) -> bool:
        return isinstance(self.status, Whole | Verified)

    @property
    def order(self) -> Restore:
        """What ranks are told of it."""
        return Restore(source=self.where.value, step=self.step, epoch=self.epoch)

    def __str__(self) -> str:
        if self.where is Where.MEMORY:
            return f"the snapshot of step {self.step} in memory"
        return f"the checkpoint of step {self.step} in the store"


class Choice(NamedTuple):
    """Where ranks start, None for the beginning; and why there: a clause, "" where nothing newer
    is.
    """

    point: RestorePoint | None
    why: str = ""


def best(points: Iterable[RestorePoint], *, asked: int | None = None) -> Choice:
    """The newest point that all ranks can start from, of a step in memory before the store.

    `asked`: a person's word that it is to be this step; 0 is the beginning.
    """
    newest_first = sorted(points, key=_age, reverse=True)
    if asked is not None:
        of_step = (each for each in newest_first if each.usable and each.step == asked)
        return Choice(next(of_step, None), "as was asked")
    point = next((each for each in newest_first if each.usable), None)
    newer = [each for each in newest_first if point is None or each.step > point.step]
    if point is None and not newer:
        return Choice(None, "for no checkpoint of Holdfast is there")
    return Choice(point, _passed_over(newer))


def _age(point: RestorePoint) -> tuple[int, bool, int]:
    return point.step, point.where is Where.MEMORY, point.epoch


def _passed_over(points: Sequence[RestorePoint]) -> str:
    """Why these were not taken, each reason once, of the newest that it holds for."""
    reasons: dict[str, RestorePoint] = {}
    for point in points:
        reasons.setdefault(_against(point), point)
    told = [f"{point} is not taken ({why})" for why, point in reasons.items()]
    return f"for {' and '.join(told)}" if told else ""


def _against(point: RestorePoint) -> str:
    match point.status:
        case Sealed():
            return "not every rank has it"
        case Tainted(why=why):
            return why
        case Whole() | Verified():
            return ""
