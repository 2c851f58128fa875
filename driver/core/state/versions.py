"""What a job is to run, by number: each change of a plan is a version of its own. Pure.

Kept by the job, the newest last, and named by its attempts. A submission makes the first.
"""

from collections.abc import Sequence

from holdfast.driver.core.events import Plan
from holdfast.driver.core.state.value import Value


class Version(Value, frozen=True):
    """A plan as it was at some time, and who had it so."""

    number: int
    plan: Plan
    at_s: float
    by: str = ""
    ran_s: float = 0.0  # how long its ranks ran, but for an attempt that runs now
    again: int | None = None  # the version that it is once more; None of one that a person made


KEPT = 16
"""Versions of a job: each has a whole spec, and is written with each change of the job."""


def with_newer(versions: Sequence[Version], newer: Version) -> tuple[Version, ...]:
    """The newest of them, `newer` last. What was left out cannot be gone back to."""
    return (*versions, newer)[-KEPT:]


def made_last(versions: Sequence[Version]) -> Version:
    """The newest that a person made: what is wanted, whatever had to be gone back to since."""
    return next((each for each in reversed(versions) if each.again is None), versions[0])
