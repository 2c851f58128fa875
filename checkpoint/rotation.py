"""Which of a rank's slots may be overwritten next. Pure; asked at each save.

The two newest are not given up: a rank that saves step k+1 knows that every rank has sealed step
k, for step k+1's collectives needed them all, and so one of the two is sealed by all. Only where
memory is too short for a third slot one of them goes: snapshots that stay for ever serve nobody.
"""

from collections.abc import Mapping
from typing import NamedTuple

Age = tuple[int, int]
"""(epoch, step) of a seal; larger is newer."""

SLOTS = 4
"""One being written, two newest (the older of them is sealed by all), one being uploaded."""

FOR_PEERS = 2
"""More where copies go to other nodes: the newest that is copied stays until a later one is, and
one is being sent, which over a slow link takes many steps."""

KEPT = 2

LEAST = 3
"""With fewer slots than these, keeping the two newest would leave none to write."""


class Turn(NamedTuple):
    """A slot to try, and the slots beside the expendable ones that may be emptied for it."""

    number: int
    gives: tuple[int, ...] = ()


def candidates(
    held: Mapping[int, Age | None],
    *,
    store_interval_steps: int,
    uploaded: Age,
    copied: Age | None = None,
) -> tuple[int, ...]:
    """Slot numbers to try in turn; `held` gives each slot's seal, None where it has none.

    Empty ones first, then the oldest. One that the agent has still to write to the store goes last:
    given up only while the agent is busy with another, which holds its own lock. The one that is
    `copied` to another node is not: others may have no later one there, and start from that.
    """
    newest = [copied, *(age for age, _ in _newest(held))]
    free = [number for number in sorted(held) if held[number] is None]
    aged = sorted((age, number) for number, age in held.items() if age and age not in newest)

    def waits_for_store(age: Age) -> bool:
        return due(age[1], store_interval_steps) and age > uploaded

    old = [number for age, number in aged if not waits_for_store(age)]
    waiting = [number for age, number in aged if waits_for_store(age)]
    return (*free, *old, *waiting)


def in_need(
    held: Mapping[int, Age | None], *, store_interval_steps: int, uploaded: Age, epoch: int
) -> tuple[Turn, ...]:
    """Of the two newest, what may be overwritten where memory has no room for a third slot.

    One stays: the newer, for when it is asked every rank has sealed that; or the older while the
    store waits for it alone. Where there is room for one slot only, that goes unless the store
    waits for it. What an older epoch left is not written to the store any more.
    """
    found = _newest(held)
    waits = [
        due(age[1], store_interval_steps) and age > uploaded and age[0] == epoch for age, _ in found
    ]
    if not found or (len(found) == 1 and waits[0]):
        return ()
    newer, older = found[0][1], found[-1][1]
    if len(found) == 1:
        return (Turn(newer),)
    if waits == [False, False]:
        return Turn(older), Turn(newer, (older,))
    return (Turn(older), Turn(newer)) if all(waits) else (Turn((newer, older)[waits[0]]),)


def _newest(held: Mapping[int, Age | None]) -> list[tuple[Age, int]]:
    """The newest seals, one slot each, newest first."""
    ages = {age: number for number, age in held.items() if age is not None}
    return sorted(ages.items(), reverse=True)[:KEPT]


def due(step: int, interval_steps: int) -> bool:
    """Whether an interval falls on this step; never at step 0, never for interval 0."""
    return step > 0 and interval_steps > 0 and step % interval_steps == 0
