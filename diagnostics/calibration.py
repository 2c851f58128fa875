"""How often a test finds what is there, and how often what is not. Pure.

Held by `registry`; its counts are printed by `holdfast bench diagnostics`.
"""

from math import comb

import msgspec

DOUBT = 0.05
"""A bound is wrong once in twenty times."""


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of exams: of nodes with a planted fault, and of healthy ones."""

    faulty: int
    missed: int  # of the faulty
    healthy: int
    alarms: int  # of the healthy
    on: str  # what it was measured on
    command: str  # that printed the counts

    @property
    def sensitivity(self) -> float:
        """Share of the faulty that failed."""
        return 1 - self.missed / self.faulty

    @property
    def false_alarms(self) -> float:
        """Share of the healthy that failed."""
        return self.alarms / self.healthy


def upper_bound(seen: int, of: int) -> float:
    """The highest rate at which so few would still be seen once in twenty times.

    Exact (Clopper and Pearson, one-sided). Where none is seen it is the rule of three: about 3 / n.
    """
    if seen >= of:
        return 1.0
    low, high = seen / of, 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(seen, of, middle) > DOUBT else (low, middle)
    return high


def _at_most(seen: int, of: int, rate: float) -> float:
    return sum(comb(of, n) * rate**n * (1 - rate) ** (of - n) for n in range(seen + 1))
