"""What a job is to run, by number: each change of a plan is a version of its own. Pure.

Kept by the job, the newest last, and named by its attempts. A submission makes the first.
"""

from holdfast.driver.core.events import Plan
from holdfast.driver.core.state.value import Value


class Version(Value, frozen=True):
    """A plan as it was at some time, and who had it so."""

    number: int
    plan: Plan
    at_s: float
    by: str = ""
    ran_s: float = 0.0  # how long its ranks ran, but for an attempt that runs now
