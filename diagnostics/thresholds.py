"""What a healthy node must reach: from the job's node class, or from its fellows. Pure."""

from collections.abc import Iterable
from statistics import median

import msgspec

from holdfast.diagnostics.plan import ALLREDUCE, COMPUTE
from holdfast.protocol.messages import DiagnosticResult

SHARE_OF_MEDIAN = 0.5
"""Where no node class says more: half of what the median node of this diagnosis reached."""


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """Least values that pass; 0 lets every finished test pass."""

    compute_gflops: float = 0.0
    allreduce_mb_per_s: float = 0.0


def thresholds(
    results: Iterable[DiagnosticResult],
    *,
    compute_gflops: float = 0.0,
    allreduce_mb_per_s: float = 0.0,
) -> Thresholds:
    """The node class's values (GFLOP/s, MB/s) where they are above 0, else half of the median.

    The median is over each node's *best* value: in a ring of three with one slow node, two of three
    edges are slow, but two of three nodes have a fast one.
    """
    known = tuple(results)
    return Thresholds(
        compute_gflops=compute_gflops or _half_of_median(known, COMPUTE),
        allreduce_mb_per_s=allreduce_mb_per_s or _half_of_median(known, ALLREDUCE),
    )


def _half_of_median(results: tuple[DiagnosticResult, ...], test: str) -> float:
    best: dict[str, float] = {}
    for result in results:
        if result.test == test and result.ok and result.value is not None:
            best[result.node] = max(best.get(result.node, 0.0), result.value)
    return SHARE_OF_MEDIAN * median(best.values()) if best else 0.0
