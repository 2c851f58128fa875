"""The 1F1B order alone, under a clock that is made up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.workload.pipeline.schedule import Kind, Work, one_forward_one_backward

pytestmark = pytest.mark.torch

sizes = st.integers(1, 8)


def makespan(stages: int, micro_batches: int, forward_s: int, backward_s: int) -> int:
    """When the last stage is done, each work starting once its stage and its input are ready."""
    queues = [list(one_forward_one_backward(p, stages, micro_batches)) for p in range(stages)]
    done: dict[tuple[int, Work], int] = {}
    free = [0] * stages
    while any(queues):
        moved = False
        for stage, queue in enumerate(queues):
            while queue:
                work = queue[0]
                source = stage - 1 if work.kind is Kind.FORWARD else stage + 1
                if 0 <= source < stages and (source, work) not in done:
                    break
                start = max(free[stage], done.get((source, work), 0))
                length = forward_s if work.kind is Kind.FORWARD else backward_s
                done[stage, work] = free[stage] = start + length
                queue.pop(0)
                moved = True
        assert moved, "the stages wait for each other"
    return max(free)


@given(sizes, st.integers(1, 12), st.integers(1, 5), st.integers(1, 5))
def test_the_idle_time_is_p_minus_1_forwards_and_backwards(
    stages: int, extra: int, forward_s: int, backward_s: int
) -> None:
    micro_batches = stages + extra
    busy_s = micro_batches * (forward_s + backward_s)
    idle_s = (stages - 1) * (forward_s + backward_s)
    assert makespan(stages, micro_batches, forward_s, backward_s) == busy_s + idle_s


@given(sizes, sizes, st.integers(1, 12))
def test_each_micro_batch_goes_forward_once_and_then_backward_once(
    stages: int, stage: int, micro_batches: int
) -> None:
    order = list(one_forward_one_backward((stage - 1) % stages, stages, micro_batches))
    assert sorted(order) == sorted(Work(kind, k) for kind in Kind for k in range(micro_batches))
    for k in range(micro_batches):
        assert order.index(Work(Kind.FORWARD, k)) < order.index(Work(Kind.BACKWARD, k))


@given(sizes, st.integers(1, 12))
def test_memory_is_bounded_by_the_stages_not_by_the_micro_batches(
    stages: int, micro_batches: int
) -> None:
    for stage in range(stages):
        in_flight = most = 0
        for work in one_forward_one_backward(stage, stages, micro_batches):
            in_flight += 1 if work.kind is Kind.FORWARD else -1
            most = max(most, in_flight)
        assert most <= stages - stage
