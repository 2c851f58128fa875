"""Where a rank stands is said by the innermost frame that is the user's own."""

import pytest

from holdfast.driver.core.faults.stacks import FEW, told

TRAINS = """\
Process 71: python train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 71 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2806)
    wrapper (torch/distributed/c10d_logger.py:81)
    step (loop/steps.py:31)
    <module> (train.py:40)
Thread 90 (idle): "pulse"
    run (holdfast/telemetry/pulse.py:10)
"""
ALL_OURS = 'Thread 1 (active): "MainThread"\n    fork (holdfast/executor/launcher.py:7)\n'


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (TRAINS, "is in step (loop/steps.py:31)"),
        (ALL_OURS, "is in fork (holdfast/executor/launcher.py:7)"),
        ('Thread 1 (active): "MainThread"\n    now (x.so)\n', "is in now (x.so)"),
        ("no stack: py-spy is not installed on this node", None),
        ("", "has no stack"),
    ],
)
def test_a_rank_stands_where_its_own_code_does(text: str, where: str | None) -> None:
    assert told({3: text}) == f"stacks: rank 3 {where or f'has {text}'}"


def test_a_few_ranks_are_named_and_the_others_counted() -> None:
    line = told(dict.fromkeys(range(FEW + 2), ""))
    assert line.endswith(f"rank {FEW - 1} has no stack and 2 more")
