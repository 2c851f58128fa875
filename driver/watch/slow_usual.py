"""What is usual for one rank, and a sum that grows while it lasts that it is more. Pure.

Used by `slow`. Values are logarithms of a rank's time to its peers'.
"""

from bisect import bisect_left
from collections.abc import Sequence
from math import sqrt

import msgspec

LEARNED = 32
"""Samples from which on what is usual is known."""
FORGETS = 1 / 256
"""Weight of a new sample in what is usual of a rank that is not in doubt: minutes."""
LEAST_SPREAD = 0.02
"""Below it a difference is nothing that anybody would look for."""
CLIP = 3.0
"""Standard deviations that one sample may count for: a long step is one step."""
DRIFT = 0.75
"""Of these, what each sample has to exceed to add to the sum."""


class Usual(msgspec.Struct, gc=False):
    """Of one rank and clock. Written in place: there may be 100,000 ranks."""

    mean: float = 0.0
    variance: float = 0.0
    sum: float = 0.0


def learn(usual: Usual, value: float, samples: int) -> None:
    """Take in one of the first: the `samples`-th (Welford, 1962)."""
    off = value - usual.mean
    usual.mean += off / samples
    usual.variance += (off * (value - usual.mean) - usual.variance) / samples


def add(usual: Usual, value: float, doubt: float, limit: float) -> None:
    """Take in one more. A sum below `doubt` leaves what is usual free to drift."""
    spread = max(LEAST_SPREAD, sqrt(usual.variance))
    off = min(max(value - usual.mean, -CLIP * spread), CLIP * spread)
    usual.sum = min(max(0.0, usual.sum + off / spread - DRIFT), limit)
    if usual.sum < doubt:
        usual.mean += FORGETS * off
        usual.variance += FORGETS * (off * off - usual.variance)


def median_of_others(values: Sequence[float], mine: float) -> float:
    """The median of sorted `values` without `mine`, which need not be among them."""
    at = bisect_left(values, mine)
    inside = at < len(values) and values[at] == mine
    last = len(values) - inside - 1
    low, high = last // 2, (last + 1) // 2
    return (values[low + (inside and low >= at)] + values[high + (inside and high >= at)]) / 2
