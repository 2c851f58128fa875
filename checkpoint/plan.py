"""Who writes which tensor: each replica group writes each of its tensors once. Pure.

Called by each rank for itself, without a word to the others: all members of a group hold the same
tensors of that group, so all come to the same plan. Must not depend on anything else.
"""

from collections.abc import Mapping

from holdfast.checkpoint.layout import Shard
from holdfast.protocol.topology import Topology


def writers(
    sizes: Mapping[str, int], shards: Mapping[str, Shard], topology: Topology, rank: int
) -> dict[str, int]:
    """The rank that writes each tensor of `rank` (name -> bytes) to the store.

    An undeclared tensor is its rank's own. The tensors that a group shares go, largest first, to
    the member with the least to write so far.
    """
    plan = dict.fromkeys(sizes, rank)
    shared: dict[tuple[int, ...], list[str]] = {}
    for name in sizes:
        if name in shards and shards[name].shared:
            group = shards[name].ranks or topology.group(rank, *shards[name].replicas)
            shared.setdefault(group, []).append(name)
    for group, names in shared.items():
        load = dict.fromkeys(group, 0)
        for name in sorted(names, key=lambda name: (-sizes[name], name)):
            member = min(load, key=lambda member: (load[member], member))
            load[member] += sizes[name]
            plan[name] = member
    return plan
