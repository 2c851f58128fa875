"""The order of forwards and backwards on one pipeline stage. Pure.

Called by `run`. Room for 5 (interleaved 1F1B is another function of this kind).
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    FORWARD = "forward"
    BACKWARD = "backward"


class Work(NamedTuple):
    """One forward or backward of one micro-batch."""

    kind: Kind
    micro_batch: int


def one_forward_one_backward(stage: int, stages: int, micro_batches: int) -> Iterator[Work]:
    """1F1B: p - stage - 1 warm-up forwards, then pairs, then the backwards that are left.

    At most p - stage micro-batches, so at most p, are in flight on a stage. Idle time of a stage:
    (p-1)(t_f + t_b). Source: Megatron-LM PTD-P (SC'21), sec. 2.2.
    """
    warm_up = min(stages - stage - 1, micro_batches)
    for k in range(warm_up):
        yield Work(Kind.FORWARD, k)
    for k in range(micro_batches - warm_up):
        yield Work(Kind.FORWARD, warm_up + k)
        yield Work(Kind.BACKWARD, k)
    for k in range(micro_batches - warm_up, micro_batches):
        yield Work(Kind.BACKWARD, k)
