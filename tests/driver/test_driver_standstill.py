"""A driver that stands still: its loop measures it, and nobody is blamed for its silence."""

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from driver_loops import PLAN, POLICY, InMemory, LoopClock, idle, submitted
from msgspec.structs import replace
from running_driver import DriverProcess
from scripted_cluster import is_done, scripted_cluster, submit
from waiting import eventually_async

from holdfast.driver.batch.inbox import MAX_BATCH
from holdfast.driver.core.events import JobSubmitted, NodeAppeared, Stalled, Ticked
from holdfast.driver.core.state.model import Timer
from holdfast.driver.loop import Loop
from holdfast.driver.ports import Claim, Entry
from holdfast.kit.clock import LOOK_S, STALL_S, Looks, RunningClock


def test_two_looks_far_apart_are_a_standstill_and_shorter_ones_are_not() -> None:
    looks = Looks(10.0)
    assert looks.look(10.0 + LOOK_S) == 0.0
    assert looks.look(10.0 + LOOK_S + STALL_S) == 0.0
    assert looks.look(50.0) == 50.0 - 10.0 - LOOK_S - STALL_S
    assert looks.look(50.1) == 0.0


def test_time_stands_for_the_detectors_while_nobody_looks() -> None:
    at, told = [100.0], []
    awake = RunningClock(lambda: at[0], told.append)
    seen = []
    for step_s in (0.1, 24.0, 0.1, 3.0, 0.9):
        at[0] += step_s
        seen.append(awake.now())
    assert seen == pytest.approx([100.1, 100.1, 100.2, 100.2, 101.1])
    assert told == pytest.approx([100.1, 100.2])


class Slow(InMemory):
    """A journal whose next commit takes its time, as on a disk that is busy."""

    takes_s = 0.0

    async def commit(
        self,
        entries: Sequence[Entry],
        state: bytes,
        *,
        change: bool = False,
        claims: Sequence[Claim] = (),
    ) -> None:
        took_s, self.takes_s = self.takes_s, 0.0
        await asyncio.sleep(took_s)
        await super().commit(entries, state, change=change, claims=claims)


@pytest.mark.looptime
async def test_what_is_waited_for_has_the_time_that_a_slow_disk_took() -> None:
    journal = Slow()
    loop = Loop(journal, clock=LoopClock(), policy=POLICY)
    async with asyncio.TaskGroup() as group:
        task = await idle(loop, group)
        loop.post(NodeAppeared(node="n0"))
        loop.post(NodeAppeared(node="n1"))
        await loop.request(submitted())
        due_s = loop.state.jobs["job"].timers[Timer.CONNECT]
        journal.takes_s = 24.0
        await loop.request(submitted("another"))
        await loop.committed_beyond(loop.sequence)
        stalled = journal.committed[-1]
        assert isinstance(stalled.event, Stalled)
        assert stalled.event.stood_s == pytest.approx(24.0, abs=LOOK_S)
        later_s = loop.state.jobs["job"].timers[Timer.CONNECT] - due_s
        assert later_s == pytest.approx(stalled.event.stood_s)
        assert "the driver stood still for 24" in stalled.why
        task.cancel()


@pytest.mark.looptime
async def test_a_tick_comes_after_all_that_was_queued_however_much_that_is() -> None:
    journal = InMemory()
    loop = Loop(journal, clock=LoopClock(), policy=POLICY)
    plan = replace(PLAN, deadline_s=10.0)
    async with asyncio.TaskGroup() as group:
        task = await idle(loop, group)
        await loop.request(JobSubmitted(job="job", plan=plan))
        await asyncio.sleep(10.0 - STALL_S / 2)
        count = 3 * MAX_BATCH
        asyncio.get_running_loop().call_later(
            STALL_S / 2, lambda: [loop.post(NodeAppeared(node=f"n{k}")) for k in range(count)]
        )
        while not loop.state.jobs["job"].finished:
            await loop.committed_beyond(loop.sequence)
        task.cancel()
    kinds = [type(each.event) for each in journal.committed]
    assert kinds.count(Ticked) == 1
    assert kinds.index(Ticked) > len(kinds) - 1 - kinds[::-1].index(NodeAppeared)


# ---------------------------------------------------------------- a real one

HASTY_S = 8.0
"""In which ranks have to be gone, and silent executors back, for the driver of this test. It is
longer than a busy machine holds them up.
"""
STOPPED_S = 1.5 * HASTY_S

HASTY = f"""
import sys
from functools import partial
from holdfast.driver import wiring
from holdfast.driver.main import main
wiring.Policy = partial(wiring.Policy, quiet_s={HASTY_S}, store_s={HASTY_S}, reconnect_s={HASTY_S})
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[DriverProcess]:
    made = DriverProcess(tmp_path / "run", "--keeper", str(tmp_path / "keeper.sock"))
    made.program = ("-c", HASTY)
    yield made
    if made.process is not None:
        made.end(signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_nobody_is_evicted_for_what_was_said_while_the_driver_was_stopped(
    hasty: DriverProcess, tmp_path: Path
) -> None:
    """Stopped between the order to end ranks and the word that they are gone."""
    async with scripted_cluster(hasty, tmp_path) as executors:
        await hasty.start()
        assert hasty.process is not None
        executors["node-2"].may_say.clear()
        await submit(hasty)
        await executors["node-2"].asked.wait()
        os.kill(hasty.process.pid, signal.SIGSTOP)
        executors["node-2"].may_say.set()
        await asyncio.sleep(STOPPED_S)
        os.kill(hasty.process.pid, signal.SIGCONT)
        for each in executors.values():
            each.may_end.set()
        await eventually_async(lambda: is_done(hasty))
    entries = hasty.journal()
    stalls = [each.event.stood_s for each in entries if isinstance(each.event, Stalled)]
    assert not [each.why for each in entries if "evicted" in each.why]
    assert stalls, "the standstill is in the journal"
