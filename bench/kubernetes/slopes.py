"""How what was measured grows with the size of the cluster. Pure.

Called by `benchmark` after the last size.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import log

from holdfast.bench.figures import Try, quantile
from holdfast.bench.kubernetes.sizes import Size

GROWING = ("s", "CPU s", "MiB")
"""Units of what costs more on more nodes; of the rest it would say nothing."""


def slopes(measured: Mapping[Size, Sequence[Try]]) -> Iterator[Try]:
    """For each figure that the smallest and the largest size have: the power of the number of nodes
    by which its median grows between them, 1 where it grows as they do, 0 where not at all.
    """
    if len(measured) < 2:
        return
    least, most = min(measured), max(measured)
    few, many = (_medians(size, measured[size]) for size in (least, most))
    for key in [key for key in few if key in many]:
        system, figure = key
        yield Try(
            system=system,
            figure=f"growth of {figure}, {least.nodes} to {most.nodes} nodes",
            unit="power",
            value=log(many[key] / few[key]) / log(most.nodes / least.nodes),
        )


def _medians(size: Size, tries: Sequence[Try]) -> dict[tuple[str, str], float]:
    """By system, and figure without its size, where all tries came and took something."""
    values: dict[tuple[str, str], list[float]] = {}
    for one in tries:
        if one.unit in GROWING:
            place = one.system, one.figure.removesuffix(f", {size}")
            values.setdefault(place, []).append(one.value or 0.0)
    medians = {place: quantile(each, 0.5) or 0.0 for place, each in values.items() if all(each)}
    return {place: value for place, value in medians.items() if value > 0}
