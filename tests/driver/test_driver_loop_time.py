"""The loop with the clock: deadlines in driver time."""

import asyncio

import msgspec
import pytest
from driver_loops import PLAN, POLICY, InMemory, LoopClock, idle, submitted

from holdfast.driver.core.events import (
    ClusterCallFailed,
    JobSubmitted,
    NodeAppeared,
    Ticked,
)
from holdfast.driver.loop import Loop


@pytest.mark.looptime
async def test_a_deadline_is_kept_in_driver_time_which_goes_on_over_restarts() -> None:
    journal, started = InMemory(), asyncio.get_running_loop().time()
    plan = msgspec.structs.replace(PLAN, deadline_s=3_600.0)
    loop = Loop(journal, clock=LoopClock(), policy=POLICY)
    async with asyncio.TaskGroup() as group:
        task = await idle(loop, group)
        await loop.request(JobSubmitted(job="job", plan=plan))
        await asyncio.sleep(1_000)
        await loop.request(submitted("to move the journal's time on"))
        task.cancel()
    assert loop.now() == pytest.approx(1_000)
    await asyncio.sleep(500)  # nobody is there: it does not count
    loop = Loop(journal, clock=LoopClock(), policy=POLICY)
    async with asyncio.TaskGroup() as group:
        task = await idle(loop, group)
        while not loop.state.jobs["job"].finished:
            await loop.committed_beyond(loop.sequence)
        assert loop.now() == pytest.approx(3_600, abs=0.1)
        assert asyncio.get_running_loop().time() - started == pytest.approx(4_100, abs=0.1)
        task.cancel()
    ticks = [each for each in journal.committed if isinstance(each.event, Ticked)]
    assert len(ticks) == 1, "one tick at the deadline, none before"


@pytest.mark.looptime
async def test_a_deadline_that_no_tick_clears_is_looked_at_ever_more_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where a defect is met between all jobs and nodes, so that there is nobody to park."""

    def broken(turn: object) -> None:
        raise KeyError("a defect of ours")

    monkeypatch.setattr("holdfast.driver.core.handlers.ticks.off_the_job.on_tick", broken)
    journal = InMemory()
    policy = msgspec.structs.replace(POLICY, retry_s=10.0)
    loop = Loop(journal, clock=LoopClock(), policy=policy)
    async with asyncio.TaskGroup() as group:
        task = await idle(loop, group)
        loop.post(NodeAppeared(node="n0"))
        loop.post(ClusterCallFailed(node="n0", call="release", why="busy"))
        await asyncio.sleep(610)
        await loop.request(submitted("another"))
        task.cancel()
    ticks = [each for each in journal.committed if isinstance(each.event, Ticked)]
    assert 10 < len(ticks) < 40
    assert all("defect: KeyError" in each.why for each in ticks)
