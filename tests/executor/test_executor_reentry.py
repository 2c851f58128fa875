"""Ranks in `holdfast.run`: after a fault they begin anew in their own process, or not at all."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from waiting import eventually_async

import holdfast
from holdfast.executor.adapters import reentry
from holdfast.kit import procstat
from holdfast.telemetry import reentry as rank_side

SCRIPT = """
import os, sys, threading, time
import holdfast

def stays():
    if os.environ["RANK"] == "1":
        {hindrance}

def train():
    print("attempt", os.environ["HOLDFAST_ATTEMPT"], os.getpid(), flush=True)
    try:
        stays()
        time.sleep(1000)
    finally:
        print("left", flush=True)

holdfast.run(train)
print("behind it", flush=True)
"""

CANNOT = {
    "a function that is in C code": "sum(range(10**15))",
    "one that swallows what ends it": """
        while True:
            try:
                time.sleep(1000)
            except BaseException:
                pass""",
    "one whose thread goes on": "threading.Thread(target=time.sleep, args=[1000]).start()",
    "one whose child process goes on": """
        import subprocess
        subprocess.Popen(["sleep", "1000"])""",
}


async def resting(node: Any, task: Any) -> list[int]:
    """The pids of two ranks that rest. One that needs too long for it on a busy machine ends: then
    others are tried.
    """
    for _ in range(3):
        before = await began(node, task, 2)
        await node.want(task)
        epoch = node.epoch
        await node.driver.eventually(lambda o, epoch=epoch: o.epoch == epoch and o.quiet)
        if set(before) < set(node.below()):
            return before
    pytest.fail("no two ranks rest")


async def began(node: Any, task: Any, ranks: int) -> list[int]:
    """The pids of the ranks of a new attempt, once each is in its function."""
    await node.launch(task, ranks=ranks)
    pids = await node.running(ranks)
    for rank, pid in enumerate(pids):
        told = f"attempt {node.epoch} {pid}\n"
        await eventually_async(lambda rank=rank, told=told: told in node.output(rank), told)
    return pids


@pytest.mark.asyncio(loop_scope="module")
async def test_a_rank_goes_on_in_its_process_with_the_table_and_output_of_the_new_attempt(
    node: Any,
) -> None:
    task = node.python(SCRIPT.format(hindrance="pass"))
    before = await began(node, task, 2)
    first = node.epoch
    assert await began(node, task, 2) == before
    assert await began(node, task, 2) == before, "and again"
    assert node.output(1, epoch=first).splitlines()[1:] == ["left"], "its `finally` has run"
    assert node.output(1).count("attempt") == 1


@pytest.mark.asyncio(loop_scope="module")
async def test_what_shows_an_exception_does_not_pile_up(node: Any) -> None:
    """Each `init_process_group` of torch puts a hook before the one that it finds."""
    hook = "lambda *error, old=sys.excepthook: print('hook', flush=True) or old(*error)"
    words = f"sys.excepthook = {hook}; os.environ['HOLDFAST_ATTEMPT'] == 'LAST' and 1 / 0"
    first = node.epoch
    task = node.python(SCRIPT.format(hindrance=words.replace("LAST", str(first + 3))))
    await began(node, task, 2)
    await began(node, task, 2)
    await node.launch(task, ranks=2)
    await node.driver.eventually(lambda o: len(o.ranks) == 2 and o.ranks[1].state == "exited")
    await eventually_async(lambda: "hook" in node.output(1), "shown")
    assert node.output(1).splitlines().count("hook") == 1, node.output(1)


@pytest.mark.asyncio(loop_scope="module")
async def test_only_the_rank_that_was_lost_is_another_process(node: Any) -> None:
    task = node.python(SCRIPT.format(hindrance="pass"))
    before = await began(node, task, 3)
    os.kill(before[1], signal.SIGKILL)
    await node.driver.eventually(lambda o: o.ranks and o.ranks[1].state == "exited")
    after = await began(node, task, 3)
    assert [pid in before for pid in after] == [True, False, True]


@pytest.mark.parametrize("hindrance", CANNOT.values(), ids=CANNOT.keys())
@pytest.mark.asyncio(loop_scope="module")
async def test_what_does_not_come_to_rest_in_time_is_ended_and_forked(
    node: Any, hindrance: str
) -> None:
    task = node.python(SCRIPT.format(hindrance=hindrance))
    before = await began(node, task, 2)
    below = {pid for pid in node.below() if procstat.children(pid) == []}
    after = await began(node, task, 2)
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False]
    assert before[1] not in node.below()
    assert node.output(1).startswith("attempt")
    assert below


BURNS = """
import os, time
os.sched_setaffinity(0, {{{core}}})
print("burns", flush=True)
while time.thread_time() < {most_s}: pass
"""
STARVED = """
        try:
            print("stays", flush=True)
            time.sleep(1000)
        finally:
            os.sched_setaffinity(0, {{{core}}})
            sum(range(10_000_000))  # a tenth of a second in C code, which nothing frees"""


@contextmanager
def busy(core: int, others: int) -> Iterator[None]:
    """A core that so many others want as well: sessions of their own, which share it alike."""
    words = [sys.executable, "-c", BURNS.format(core=core, most_s=2)]
    burning = [
        subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
        for _ in range(others)
    ]
    try:
        for each in burning:
            assert each.stdout is not None
            assert each.stdout.readline()
        yield
    finally:
        for each in burning:
            each.kill()
            each.communicate()


@pytest.mark.asyncio(loop_scope="module")
async def test_one_that_gets_no_core_is_given_the_time_that_it_lacked(node: Any) -> None:
    core = min(os.sched_getaffinity(0))
    task = node.python(SCRIPT.format(hindrance=STARVED.format(core=core)))
    before = await began(node, task, 2)
    await eventually_async(lambda: "stays" in node.output(1), "in its function")
    with busy(core, 20):
        assert await began(node, task, 2) == before
    await node.want(None, job=None)


@pytest.mark.asyncio(loop_scope="module")
async def test_an_exception_of_the_users_ends_its_rank_and_is_told_as_ever(node: Any) -> None:
    task = node.python(SCRIPT.format(hindrance='raise ValueError("bad batch")'))
    await node.launch(task, ranks=2)
    ends = ["running", "exited"]  # rank 1 may end before rank 0 is seen to run
    seen = await node.driver.eventually(
        lambda o: o.epoch == node.epoch and [each.state for each in o.ranks] == ends
    )
    assert seen.ranks[1].error.message == "ValueError: bad batch"
    assert seen.ranks[0].state == "running"
    trace = seen.ranks[1].error.traceback
    assert [name for name in ("holdfast/__init__", "reentry") if name in trace] == []


@pytest.mark.asyncio(loop_scope="module")
async def test_who_rests_ends_where_nobody_wants_it(node: Any) -> None:
    task = node.python(SCRIPT.format(hindrance="pass"))
    before = await resting(node, task)
    await node.want(task, ranks=1, epoch=node.epoch)
    assert await node.running(1) == before[:1]
    await eventually_async(lambda: before[1] not in node.below(), "the end of rank 1")
    await node.want(None, job=None)
    await eventually_async(lambda: before[0] not in node.below(), "the end of all")


@pytest.mark.asyncio(loop_scope="module")
async def test_who_rests_ends_where_its_job_is_over_before_it_goes_on(node: Any) -> None:
    before = await resting(node, node.python(SCRIPT.format(hindrance="pass")))
    await node.want(None, job=None)
    await eventually_async(lambda: not set(before) & set(node.below()), "the end of both")


@pytest.mark.asyncio(loop_scope="module")
async def test_who_rests_and_is_stopped_does_not_stay(node: Any) -> None:
    before = await resting(node, node.python(SCRIPT.format(hindrance="pass")))
    for pid in before:
        os.kill(pid, signal.SIGSTOP)
    await node.want(None, job=None)
    await eventually_async(lambda: not set(before) & set(node.below()), "the end of both")


@pytest.mark.asyncio(loop_scope="module")
async def test_another_program_gets_processes_of_its_own(node: Any) -> None:
    task = node.python(SCRIPT.format(hindrance="pass"))
    before = await began(node, task, 2)
    after = await began(node, node.python(SCRIPT.format(hindrance="pass"), "--lr", "1"), 2)
    assert not set(before) & set(after)


def acts(pid: int) -> bool:
    """Whether anything of it still runs: nobody may be left who reaps it."""
    stat = procstat.stat(pid)
    return stat is not None and stat.acts


@pytest.mark.asyncio(loop_scope="module")
async def test_who_rests_ends_with_the_executor(own_node: Any) -> None:
    before = await resting(own_node, own_node.python(SCRIPT.format(hindrance="pass")))
    os.kill(own_node.executor, signal.SIGKILL)
    await eventually_async(lambda: not any(map(acts, before)), "the end of both")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_function_that_returns_is_done(node: Any) -> None:
    task = node.python(
        """
        import holdfast
        print(holdfast.run(pow, 2, 10))
        """
    )
    await node.launch(task, ranks=1)
    (ended,) = await node.exited(1)
    assert (ended.exit_code, node.output()) == (0, "1024\n")


def test_outside_holdfast_it_is_called_once() -> None:
    told: list[int] = []
    assert holdfast.run(told.append, 3) is None
    assert told == [3]


def test_what_a_rank_may_take_to_rest_is_more_than_it_is_asked_again() -> None:
    assert rank_side.AGAIN_S + rank_side.JOIN_S < reentry.REST_LIMIT_S


def test_in_another_thread_it_says_what_to_do() -> None:
    code = """
import threading, holdfast
def other():
    try:
        holdfast.run(print)
    except RuntimeError as error:
        print(error)
threading.Thread(target=other).start()
"""
    env = {**os.environ, "HOLDFAST_REENTRY": "holdfast-nobody"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert b"call it in the main thread" in done.stdout


HOLDS = """
import os, socket, sys, time
import holdfast

def train():
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as link:
        print("attempt", os.environ["HOLDFAST_ATTEMPT"], os.getpid(), flush=True)
        link.settimeout(float(sys.argv[2]))
        try:
            print("heard", link.recv(1), flush=True)
        except TimeoutError:
            print("still open", flush=True)
        time.sleep(1000)

holdfast.run(train)
"""


@pytest.mark.asyncio(loop_scope="module")
async def test_what_freed_the_function_takes_nothing_of_the_next_attempt(node: Any) -> None:
    """An attempt may follow within a moment, when whoever frees the function looks once more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port, longer_s = server.getsockname()[1], 3 * rank_side.AGAIN_S
        task = node.python(HOLDS, str(port), str(longer_s))
        before = await began(node, task, 1)
        assert await began(node, task, 1) == before
        await eventually_async(lambda: node.output(0).count("\n") == 2, "it has looked")
    assert node.output(0).splitlines()[1] == "still open"


GLOO = """
import os, sys, time, torch, torch.distributed as dist
import holdfast

def train():
    dist.init_process_group("gloo")
    pair = dist.new_group([0, 1])
    x = torch.ones(1 << 16)
    print("attempt", os.environ["HOLDFAST_ATTEMPT"], os.getpid(), flush=True)
    while True:
        dist.all_reduce(x.fill_(1.0))
        assert x[0].item() == dist.get_world_size(), "of another attempt"
        if dist.get_rank() < 2:
            dist.all_reduce(x, group=pair)
        if dist.get_rank() == 3 and os.path.exists(sys.argv[1]):
            print("sleeps", flush=True)
            time.sleep(1000)

holdfast.run(train)
"""


ROUNDS = 8
"""Of a kill each. Some survivors are caught in a wait of gloo's, and then forked."""


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="module")
async def test_survivors_in_gloo_meet_again_in_their_own_processes(node: Any) -> None:
    task = node.python(GLOO, str(node.folder / "never"))
    pids, kept = await began(node, task, 4), []
    while [True] * 3 not in kept:
        assert len(kept) < ROUNDS, kept
        lost = (len(kept) + 1) % 4
        os.kill(pids[lost], signal.SIGKILL)
        after = await began(node, task, 4)
        assert after[lost] not in pids
        kept.append([pid in pids for rank, pid in enumerate(after) if rank != lost])
        pids = after


@pytest.mark.torch
@pytest.mark.asyncio(loop_scope="module")
async def test_ranks_that_wait_for_one_that_sleeps_are_freed(node: Any) -> None:
    held = node.folder / "held"
    task = node.python(GLOO, str(held))
    pids = await began(node, task, 4)
    held.touch()
    await eventually_async(lambda: "sleeps" in node.output(3), "one that is in no wait of gloo's")
    after = await began(node, task, 4)
    assert after[3] == pids[3], "who slept"
    assert sum(pid in pids for pid in after) >= 2
    held.unlink()
