"""Children that are forked ahead: the next attempt's ranks are theirs, and none of them stays."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually_async

from holdfast.executor.launcher.spare import NAME
from holdfast.protocol.messages import Task

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCRIPT = "import os, signal\nprint(os.environ['RANK'], os.getpid(), flush=True)\nsignal.pause()\n"


def spares(node: Any) -> set[int]:
    """Pids of those below the executor that wait for a program."""
    return {pid for pid in node.below() if _called(pid) == NAME}


def _called(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


async def held_ready(node: Any, count: int) -> set[int]:
    def there() -> set[int] | None:
        found = spares(node)
        return found if len(found) == count else None

    return await eventually_async(there, f"{count} spares")


async def trained(node: Any) -> tuple[Task, set[int]]:
    """Two ranks run, and two spares and one for the rendezvous are ready."""
    task = node.python(SCRIPT)
    await node.launch(task, ranks=2)
    await node.running(2)
    return task, await held_ready(node, 3)


async def test_the_next_attempts_ranks_are_those_that_were_forked_ahead(node: Any) -> None:
    task, ready = await trained(node)
    await node.launch(task, ranks=2)
    pids = await node.running(2)
    assert set(pids) < ready
    await eventually_async(lambda: node.output(1) == f"1 {pids[1]}\n", "its own output")
    assert not await held_ready(node, 3) & set(pids), "others have taken their place"


async def test_spares_that_die_are_not_missed(node: Any) -> None:
    task, ready = await trained(node)
    for pid in ready:
        os.kill(pid, signal.SIGKILL)
    await node.launch(task, ranks=2)
    assert len(await node.running(2)) == 2


async def test_a_spare_that_is_stopped_gets_no_program(node: Any) -> None:
    """Else a rank would never begin, and nothing but its first step's time would tell."""
    task, ready = await trained(node)
    for pid in ready:
        os.kill(pid, signal.SIGSTOP)
    await node.launch(task, ranks=2)
    pids = await node.running(2)
    assert not set(pids) & ready
    await eventually_async(lambda: node.output(1) == f"1 {pids[1]}\n", "it has begun")
    await eventually_async(lambda: not ready & set(node.below()), "the end of those")


async def test_a_spare_that_is_stopped_does_not_stay(node: Any) -> None:
    _, ready = await trained(node)
    for pid in ready:
        os.kill(pid, signal.SIGSTOP)
    await node.want(None, job=None)
    await eventually_async(lambda: not spares(node), "the end of all")


async def test_none_is_left_once_the_job_is_over(node: Any) -> None:
    await trained(node)
    await node.want(None, job=None)
    await eventually_async(lambda: not spares(node), "the end of all")


async def test_spares_end_with_their_executor(own_node: Any) -> None:
    _, ready = await trained(own_node)
    os.kill(own_node.executor, signal.SIGKILL)
    await eventually_async(lambda: all(_called(pid) != NAME for pid in ready), "the end of all")
