"""Who writes which tensor: each replica group writes each of its tensors once. Pure.

Called by each rank for itself, without a word to the others: all members of a group hold the same
tensors of that group, so all come to the same plan. Must not depend on anything else.
"""

from collections.abc import Mapping

from holdfast.checkpoint.layout import Shard
from holdfast.protocol.topology import Axis, Topology


def writers(
    sizes: Mapping[str, int], shards: Mapping[str, Shard], topology: Topology, rank: int
) -> dict[str, int]:
    """The rank that writes each tensor of `rank` (name -> bytes) to the store.

    An undeclared tensor is its rank's own. The tensors that a group shares go, largest first, to
    the member with the least to write so far.
    """
    plan = dict.fromkeys(sizes, rank)
    shared: dict[tuple[Axis, ...], list[str]] = {}
    for name in sizes:
        axes = shards[name].replicas if name in shards else ()
        if axes:
            shared.setdefault(tuple(sorted(axes)), []).append(name)
    for axes, names in shared.items():
        load = dict.fromkeys(topology.group(rank, *axes), 0)
        for name in sorted(names, key=lambda name: (-sizes[name], name)):
            member = min(load, key=lambda member: (load[member], member))
            load[member] += sizes[name]
            plan[name] = member
    return plan
