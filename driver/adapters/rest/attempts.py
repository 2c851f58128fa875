"""A job's attempts: what each ran, where, from which step, and what ended it.

Told from the journal: an attempt begins with the first order that seats its ranks and ends with the
next order to one of its nodes that wants none. Standbys are told things meanwhile.
"""

from collections.abc import Iterable, Sequence

from fastapi import APIRouter, Depends

from holdfast.driver.adapters.rest.guard import NO_PARAMETERS, PREFIX, Driver, person
from holdfast.driver.adapters.rest.jobs import job_of
from holdfast.driver.adapters.rest.telling import entries_of
from holdfast.driver.adapters.rest.view import View
from holdfast.driver.core.effects import Instruct
from holdfast.driver.core.state import model
from holdfast.driver.people import job_lives
from holdfast.driver.ports import Entry
from holdfast.protocol.messages import Desired

router = APIRouter(prefix=PREFIX, tags=["jobs"], dependencies=[Depends(person)])


class Attempt(View):
    """One start of all ranks."""

    attempt: int
    began: str
    """Time of day in UTC."""
    nodes: list[str]
    """In rank order."""
    source: str
    """What it started from: "memory", "store", or "beginning"."""
    step: int
    """The step that it started from."""
    version: int
    """Of the job, that it ran."""
    layout: int
    """Number of the layout that its ranks had; 0 where it is not known, as of an attempt that an
    earlier Holdfast started."""
    ended: str = ""
    """Time of day in UTC; empty while it runs."""
    why: str = ""
    """What ended it."""


class AttemptList(View):
    items: list[Attempt]


@router.get("/jobs/{job}/attempts", dependencies=[NO_PARAMETERS])
def attempts(job: str, control: Driver) -> AttemptList:
    """What each attempt ran, from which step, and what ended it. In a thread: it reads."""
    found = job_of(control, job)
    own = entries_of(control.journal, job=job, after=job_lives.before(found))
    return AttemptList(items=attempts_of(job, own, found.history))


def attempts_of(
    job: str, entries: Iterable[Entry], history: Iterable[model.Attempt]
) -> list[Attempt]:
    """Pure. `history`: what the job remembers of its attempts."""
    ran = {attempt.epoch: attempt for attempt in history}
    found: list[Attempt] = []
    for entry in entries:
        told = [each.desired for each in entry.effects if isinstance(each, Instruct)]
        orders = [desired for desired in told if desired.job in (job, None)]
        for desired in orders:
            if desired.seats:
                if not found or found[-1].attempt != desired.attempt:
                    known = ran.get(desired.epoch, model.Attempt(epoch=desired.epoch))
                    found.append(_begun(desired, orders, entry, known))
            elif found and not found[-1].ended and desired.node in found[-1].nodes:
                found[-1] = found[-1].model_copy(update={"ended": entry.at, "why": entry.why})
    return found


def _begun(
    desired: Desired, orders: Sequence[Desired], entry: Entry, known: model.Attempt
) -> Attempt:
    """`orders`: what all nodes were told by the entry, each with its own part of the rank table."""
    restore = desired.restore
    seats = sorted((seat for each in orders for seat in each.seats), key=lambda seat: seat.rank)
    return Attempt(
        attempt=desired.attempt,
        began=entry.at,
        nodes=list(dict.fromkeys(seat.node for seat in seats)),
        source=restore.source if restore else "beginning",
        step=restore.step if restore else 0,
        version=known.version,
        layout=known.layout,
    )
