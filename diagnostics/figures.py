"""What healthy nodes reach in each test, and the bound that follows. Pure.

Made of a diagnosis by the driver's core, which keeps them; read by `thresholds`.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from math import log
from statistics import median, median_low

import msgspec

from holdfast.diagnostics.registry import TESTS, Test
from holdfast.diagnostics.stages import Stage
from holdfast.diagnostics.thresholds import reached, share_that_passes

LEAST_NODES = 3
"""Of fewer nobody knows how far they differ."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Of one test, in its unit."""

    nodes: int
    median: float
    spread: float  # of the logarithm of what the nodes reached: .05 is about 5 %
    bound: float  # a node that reaches less fails
    at_s: float  # when, on the driver's clock
    asked: bool = (
        True  # a person had it measured; else it is what a diagnosis of healthy nodes told
    )
    before: float | None = None  # the median of the calibration before

    @property
    def drift(self) -> float | None:
        """By what share the median differs from that of the calibration before."""
        return self.median / self.before - 1 if self.before else None


Figures = Mapping[str, Figure]
"""By test."""


def figures(
    stages: Sequence[Stage],
    healthy: Collection[str],
    known: Figures,
    *,
    now: float,
    asked: bool,
) -> dict[str, Figure]:
    """What these nodes reached in each test in which that is a matter of the nodes. Nothing of a
    test that fewer than `LEAST_NODES` ended."""
    told = tuple(chain.from_iterable(stage.results for stage in stages))
    found: dict[str, Figure] = {}
    for test in TESTS.values():
        best = reached(told, test)
        values = sorted(best[node] for node in healthy if best.get(node, 0.0) > 0)
        if not test.least and len(values) >= LEAST_NODES:
            found[test.name] = _figure(test, values, known.get(test.name), now, asked=asked)
    return found


def _figure(
    test: Test, values: Sequence[float], last: Figure | None, now: float, *, asked: bool
) -> Figure:
    middle = median_low(values)  # one of them: a sum of two may be no number
    spread = 1.4826 * median(abs(log(value / middle)) for value in values)
    return Figure(
        nodes=len(values),
        median=middle,
        spread=spread,
        bound=middle * max(test.share_of_median, share_that_passes(test, spread, len(values))),
        at_s=now,
        asked=asked,
        before=last.median if asked and last and last.asked else None,
    )


def bounds(known: Figures) -> dict[str, float]:
    """What a person had measured: it counts before what fellows reach."""
    return {test: figure.bound for test, figure in known.items() if figure.asked}


def priors(known: Figures) -> dict[str, float]:
    """What healthy nodes told by the way: it counts where there are too few fellows."""
    return {test: figure.bound for test, figure in known.items() if not figure.asked}
