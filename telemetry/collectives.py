"""What a process group of this rank does, brought to the recorder: by whichever way it is seen.

Called by `hooks` (torch 2.14 and newer) and `methods` (before). Must not let an exception of its
own reach the user.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from holdfast.telemetry import current, looks, schema
from holdfast.telemetry.looks import Tensor
from holdfast.telemetry.recorder import Group, Recorder

KINDS = {
    name: schema.KINDS.index(kind)
    for name, kind in {
        "ALLREDUCE": "all_reduce",
        "BROADCAST": "broadcast",
        "REDUCE": "reduce",
        "ALLGATHER": "all_gather",
        "REDUCE_SCATTER": "reduce_scatter",
        "ALLTOALL": "all_to_all",
        "BARRIER": "barrier",
        "SCATTER": "scatter",
        "GATHER": "gather",
        "ALLREDUCE_COALESCED": "all_reduce_coalesced",
        "ALLGATHER_BASE": "all_gather_base",
        "ALLGATHER_COALESCED": "all_gather_coalesced",
        "ALLGATHER_INTO_TENSOR_COALESCED": "all_gather_into_tensor_coalesced",
        "REDUCE_SCATTER_BASE": "reduce_scatter_base",
        "REDUCE_SCATTER_TENSOR_COALESCED": "reduce_scatter_tensor_coalesced",
        "ALLTOALL_BASE": "all_to_all_base",
    }.items()
}
"""Collectives by torch's names of their operations."""
_SAME_SHAPE = {"ALLREDUCE", "BROADCAST", "ALLGATHER_BASE", "REDUCE_SCATTER_BASE"}
"""Collectives whose input has one shape on all ranks: their fingerprint holds its size."""


class Name(Protocol):
    @property
    def name(self) -> str: ...


class Operation(Protocol):
    """What torch's hooks are given: its name, the rank in the group that it is with (-1: any), what
    it reads, and its work, once there is one."""

    @property
    def name(self) -> Name: ...
    @property
    def root(self) -> int: ...
    @property
    def input_tensors(self) -> Sequence[Tensor]: ...
    @property
    def work(self) -> Any: ...


class Watched:
    """One group. `polled`: it is also asked whether its works are done."""

    def __init__(
        self, recorder: Recorder, counts: Group, ranks: list[int], *, polled: bool
    ) -> None:
        self.counts, self.polled = counts, polled
        counts.followed = polled
        self._recorder, self._ranks = recorder, ranks
        self._looked = looks.wanted()

    def begins(self, op: Operation) -> None:
        """An operation is about to be enqueued."""
        try:
            name = op.name.name
            if name in ("SEND", "RECV"):
                self._message(name, op.root)
            elif name in KINDS:
                self.counts.enqueue(KINDS[name], _fingerprint(name, op.input_tensors))
                if self._looked and name in looks.REDUCTIONS:
                    self.counts.looks(op.input_tensors)
        except Exception:  # noqa: BLE001 a hook's exception would end the user's training
            missing("collectives")

    def made(self, op: Operation) -> None:
        """It was enqueued."""
        try:
            work, known = op.work, op.name.name in KINDS
            if work is None or not known:
                return
            if self.polled:
                self._recorder.pending(work, self.counts)
            self._recorder.gpu.made(work)
        except Exception:  # noqa: BLE001 a hook's exception would end the user's training
            missing("done")

    def _message(self, name: str, root: int) -> None:
        """A receive from any source has root -1: nobody in particular is waited for."""
        if root < 0:
            return
        if (peer := self._recorder.peer(self._ranks[root])) is not None:
            peer.sent() if name == "SEND" else peer.received()
        if self._recorder.tracer is not None:
            what = "sends to" if name == "SEND" else "receives from"
            self._recorder.tracer.passes(what, self._ranks[root])


def _fingerprint(name: str, tensors: Sequence[Tensor]) -> int:
    """A number of 32 bits from what has to be equal on all ranks of one collective."""
    if name not in _SAME_SHAPE:
        return KINDS[name]
    size: int = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    return (size * 31 + KINDS[name]) & 0xFFFF_FFFF


def missing(part: str) -> None:
    """Say that `part` is not watched here. Raises nothing."""
    with suppress(Exception):
        if current.recorder is not None:
            current.recorder.missing(part)
