"""How large the benchmark is, from what a person asks for. Pure.

Called by the command line.
"""

from typing import NamedTuple

from holdfast.bench.counts import BadSizes, counts
from holdfast.bench.kubernetes.fleet import NODES_A_RACK

CONDITIONS, FEW_CONDITIONS = 100, 10
LEAST_NODES = 2 * NODES_A_RACK
SHARE = 0.75
"""Of the nodes, those that the gang has where nobody says how many."""


class Size(NamedTuple):
    """Fake nodes, how many of them the gang wants, and on how many a condition is written."""

    nodes: int
    gang: int
    conditions: int

    def __str__(self) -> str:
        return f"{self.gang} pods on {self.nodes} nodes"


def chosen(nodes: str, gang: int | None, *, quick: bool) -> list[Size]:
    """Sizes from `N,N,…` and the gang on the largest, smallest first. Raises `BadSizes`."""
    found = counts(nodes)
    for count in found:
        if count < LEAST_NODES or count % NODES_A_RACK:
            raise BadSizes(
                f"--nodes {count}: fake nodes stand in racks of {NODES_A_RACK}, at least two.",
                f"Give a multiple of {NODES_A_RACK} from {LEAST_NODES} on.",
            )
    most = found[-1]
    wanted = int(SHARE * most) if gang is None else gang
    if wanted >= most:
        raise BadSizes(
            f"--gang {wanted}: some of the {most} nodes have to be free, for their conditions.",
            f"Give at most {most - 1}.",
        )
    return [_size(count, max(1, wanted * count // most), quick) for count in found]


def _size(nodes: int, gang: int, quick: bool) -> Size:
    return Size(nodes, gang, min(FEW_CONDITIONS if quick else CONDITIONS, nodes - gang))
