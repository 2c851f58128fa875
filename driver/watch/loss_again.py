"""Whether a loss that was no number may be so again, though not yet for long enough to be found.

Called by `jobs`. Pure. Where code computes a little otherwise each time, it comes some steps later
in the steps that are done again, and is not over once the job is as far as it was.
"""

from collections.abc import Iterable

from holdfast.driver.watch.model import Expectation
from holdfast.protocol.messages import RankProgress


def in_question(expected: Expectation, ranks: Iterable[RankProgress]) -> bool:
    """In a start from before one: no rank that tells its loss tells a number now."""
    if not expected.loss_again:
        return False
    bad = [each.bad_loss is not None for each in ranks if each.loss is not None]
    return bool(bad) and all(bad)
