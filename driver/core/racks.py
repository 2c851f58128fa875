"""Which nodes are near each other: ranks talk all the time, and best within a rack.

Called by `allocation`. Pure. A rack that nobody named is one like any other.
"""

from collections import Counter
from collections.abc import Sequence

from holdfast.driver.core.model import Job
from holdfast.driver.core.turn import Turn


def together(turn: Turn, nodes: Sequence[str], count: int) -> list[str]:
    """So many of the nodes in few racks: the smallest rack that has all, else the largest first."""
    racks: dict[str, list[str]] = {}
    for node in nodes:
        racks.setdefault(turn.nodes[node].rack, []).append(node)
    whole = [rack for rack in racks.values() if len(rack) >= count]
    if whole:
        return min(whole, key=len)[:count]
    largest_first = sorted(racks.values(), key=len, reverse=True)
    return [node for rack in largest_first for node in rack][:count]


def near(turn: Turn, job: Job, nodes: Sequence[str]) -> list[str]:
    """The nodes, those first in whose rack the job has most of its own; else as they came."""
    own = Counter(turn.nodes[node].rack for node in job.nodes)
    return sorted(nodes, key=lambda node: -own[turn.nodes[node].rack])
