"""Which of a rank's slots may be overwritten next. Pure; asked at each save.

The two newest are never given up: a rank that saves step k+1 knows that every rank has sealed step
k, for step k+1's collectives needed them all, and so one of the two is sealed by all.
"""

from collections.abc import Mapping

Age = tuple[int, int]
"""(epoch, step) of a seal; larger is newer."""

KEPT = 2


def candidates(
    held: Mapping[int, Age | None], *, store_interval_steps: int, drained: Age
) -> tuple[int, ...]:
    """Slot numbers to try in turn; `held` gives each slot's seal, None where it has none.

    Empty ones first, then the oldest. One that the agent has still to write to the store goes last:
    given up only while the agent is busy with another, which holds its own lock.
    """
    newest = sorted({age for age in held.values() if age is not None}, reverse=True)[:KEPT]
    free = [number for number in sorted(held) if held[number] is None]
    aged = sorted((age, number) for number, age in held.items() if age and age not in newest)

    def waits_for_store(age: Age) -> bool:
        return due(age[1], store_interval_steps) and age > drained

    old = [number for age, number in aged if not waits_for_store(age)]
    waiting = [number for age, number in aged if waits_for_store(age)]
    return (*free, *old, *waiting)


def due(step: int, interval_steps: int) -> bool:
    """Whether an interval falls on this step; never at step 0, never for interval 0."""
    return step > 0 and interval_steps > 0 and step % interval_steps == 0
