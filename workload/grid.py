"""This rank's place in the (dp, pp, tp) grid: its device, its process groups, its collectives.

Called by `main` once, then by whatever communicates. Every byte between ranks goes through
`Group`, which counts it. Must not know what is sent.

Rooms: 21 (group initialisation without a global barrier: only members make a group),
26 (NCCL defaults), 28 (placement: the order of the axes is `protocol.topology`'s).
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from holdfast.protocol.topology import Axis, Topology
from holdfast.workload.settings import Place


class Ledger:
    """What this rank gave to collectives: calls and elements, by (axis, operation)."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.elements: Counter[tuple[str, str]] = Counter()

    def note(self, axis: str, operation: str, elements: int) -> None:
        self.calls[axis, operation] += 1
        self.elements[axis, operation] += elements


class Group:
    """The ranks that differ along one axis only, and what they do together.

    A group of one does nothing and counts nothing. `sent` volumes of a ring, for a payload of N
    elements over n ranks: all-reduce 2 N (n-1)/n, reduce-scatter and all-gather N (n-1)/n each
    (Patarasuk and Yuan, 2009).
    """

    def __init__(self, name: str, ranks: tuple[int, ...], rank: int, ledger: Ledger) -> None:
        self.name, self.ranks, self.ledger = name, ranks, ledger
        self.size, self.index = len(ranks), ranks.index(rank)
        self._group = _members(name, ranks)
        self._native_scatter = dist.get_backend() == "nccl"

    def all_reduce(
        self, tensor: torch.Tensor, op: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM
    ) -> torch.Tensor:
        """Reduce `tensor` in place over the group; the same bits on every member."""
        if self.size > 1:
            self.ledger.note(self.name, "all_reduce", tensor.numel())
            dist.all_reduce(tensor, op=op, group=self._group)
        return tensor

    def reduce_scatter(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum over the group of this member's slice of flat `tensor`, N/n elements.

        Gloo's own reduce-scatter moves the bytes of an all-reduce (seen in TCP_INFO, torch 2.15),
        twice what is needed; an all-to-all and a sum in rank order move N (n-1)/n.
        """
        if self.size == 1:
            return tensor
        self.ledger.note(self.name, "reduce_scatter", tensor.numel())
        if self._native_scatter:
            mine = tensor.new_empty(tensor.numel() // self.size)
            dist.reduce_scatter_tensor(mine, tensor, group=self._group)
            return mine
        pieces = torch.empty_like(tensor)
        dist.all_to_all_single(pieces, tensor, group=self._group)
        return pieces.view(self.size, -1).sum(0)

    def all_gather(self, whole: torch.Tensor, mine: torch.Tensor) -> None:
        """Fill flat `whole` with every member's slice; `mine` may be a view of it."""
        if self.size > 1:
            self.ledger.note(self.name, "all_gather", whole.numel())
            dist.all_gather_into_tensor(whole, mine, group=self._group)

    def send(self, tensor: torch.Tensor, to: int) -> "dist.Work":
        """Start sending to member `to`; the caller keeps `tensor` alive until the work is done."""
        self.ledger.note(self.name, "send", tensor.numel())
        work = dist.isend(tensor, self.ranks[to], group=self._group)
        assert work is not None, "a member of the group sends"
        return work

    def receive(self, tensor: torch.Tensor, source: int) -> torch.Tensor:
        """Fill `tensor` with the next message of member `source`."""
        dist.recv(tensor, self.ranks[source], group=self._group)
        return tensor


def _members(name: str, ranks: tuple[int, ...]) -> dist.ProcessGroup | None:
    """A process group made by its members alone; None stands for the world, which exists."""
    if name == "world" or len(ranks) == 1:
        return None
    group = dist.new_group(list(ranks), use_local_synchronization=True)
    assert isinstance(group, dist.ProcessGroup), "a member makes the group"
    return group


class Grid:
    """All groups of this rank. `up` carries activations, `down` gradients: two groups, so that on
    NCCL a send one way never queues behind a receive the other way."""

    def __init__(self, topology: Topology, place: Place, device: torch.device) -> None:
        self.topology, self.rank, self.device = topology, place.rank, device
        self.ledger = Ledger()
        self.tensor = self._group("tensor", Axis.TP)
        self.up = self._group("pipeline", Axis.PP)
        self.down = self._group("pipeline", Axis.PP)
        self.data = self._group("data", Axis.DP)
        self.world = self._group("world", *Axis)

    def _group(self, name: str, *axes: Axis) -> Group:
        return Group(name, self.topology.group(self.rank, *axes), self.rank, self.ledger)

    @property
    def stage(self) -> int:
        return self.up.index

    @property
    def stages(self) -> int:
        return self.up.size

    @property
    def is_first_stage(self) -> bool:
        return self.stage == 0

    @property
    def is_last_stage(self) -> bool:
        return self.stage == self.stages - 1


def device_of(place: Place) -> torch.device:
    """The GPU of this local rank where there is one, else the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", place.local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


@contextmanager
def joined(topology: Topology, place: Place) -> Iterator[Grid]:
    """The grid, within a process group that is left at the end.

    Several ranks meet at MASTER_ADDR, as torch reads it; a rank alone needs no address.
    """
    device = device_of(place)
    store = HashStore() if place.world_size == 1 else None
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=store,
        rank=place.rank if store else -1,
        world_size=1 if store else -1,
    )
    try:
        yield Grid(topology, place, device)
    finally:
        dist.destroy_process_group()
