"""Where a rank stands is said by the innermost frame that is the user's own."""

import pytest

from holdfast.telemetry.analysis.stacks import FEW, told

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
LIB = "/usr/lib/python3.11"
SITE = "/home/u/env/lib/python3.11/site-packages"
LOADS = f"""\
Process 71: python /home/u/lib/train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 71 (idle): "MainThread"
    _PollLikeSelector.select ({LIB}/selectors.py:415)
    wait ({LIB}/multiprocessing/connection.py:947)
    Queue.get ({LIB}/multiprocessing/queues.py:113)
    _next_data ({SITE}/torch/utils/data/dataloader.py:1310)
    train (/home/u/holdfast/train.py:13)
    <module> (/home/u/holdfast/train.py:20)
    run_path (<frozen runpy>:291)
    start (/opt/holdfast/src/holdfast/executor/launcher/child.py:90)
"""
IDLES = f"""
Process 72: python train.py
Thread 72 (idle): "MainThread"
    wait ({LIB}/multiprocessing/connection.py:947)
    _worker_loop ({SITE}/torch/utils/data/_utils/worker.py:259)
    BaseProcess.run ({LIB}/multiprocessing/process.py:108)
"""
BLOCKED = f"""
Process 73: python train.py
Thread 73 (idle): "MainThread"
    read_tar (/home/u/holdfast/data.py:31)
    fetch ({SITE}/torch/utils/data/_utils/fetch.py:54)
    _worker_loop ({SITE}/torch/utils/data/_utils/worker.py:259)
Thread 99 (idle): "feeder"
    feed (/home/u/holdfast/feeder.py:3)
"""
COMPILED = f"""\
Thread 71 (active): "MainThread"
    call (/tmp/torchinductor_u/uw/cuw65hk3b45prlukgjunitc3tpgnsa6eyw7hizxkbxptar62qqh7.py:88)
    forward (<eval_with_key>.5:12)
    __call__ ({SITE}/torch/_inductor/output_code.py:613)
    train (/home/u/train.py:13)
"""
ALL_OURS = 'Thread 1 (active): "MainThread"\n    fork (holdfast/executor/launcher.py:7)\n'


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (TRAINS, "is in step (loop/steps.py:31)"),
        (ALL_OURS, "is in fork (holdfast/executor/launcher.py:7)"),
        ('Thread 1 (active): "MainThread"\n    now (x.so)\n', "is in now (x.so)"),
        (LOADS, "is in train (train.py:13)"),
        (COMPILED, "is in train (train.py:13)"),
        (LOADS + IDLES, "is in train (train.py:13)"),
        (
            LOADS + IDLES + BLOCKED,
            "is in train (train.py:13), its child 73 in read_tar (data.py:31)",
        ),
        (
            LOADS.replace(f"{LIB}/", "").replace(f"{SITE}/", "").replace("/home/u/holdfast/", ""),
            "is in train (train.py:13)",
        ),
        ("no stack: it was not asked\n" + BLOCKED, None),
        ("no stack: py-spy is not installed on this node", None),
        ("", "has no stack"),
    ],
)
def test_a_rank_stands_where_its_own_code_does(text: str, where: str | None) -> None:
    assert told({3: text}) == f"stacks: rank 3 {where or f'has {text.partition(chr(10))[0]}'}"


def test_a_few_ranks_are_named_and_the_others_counted() -> None:
    line = told(dict.fromkeys(range(FEW + 2), ""))
    assert line.endswith(f"rank {FEW - 1} has no stack and 2 more")
