"""A submission that itself meets a defect of ours: answered, gone, and met by no restart."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from driver_loops import PLAN, POLICY, idle, submitted

from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.batch.inbox import Refused
from holdfast.driver.core import decide
from holdfast.driver.core.events import JobSubmitted, NodeAppeared, StopRequested
from holdfast.driver.core.handlers import requests
from holdfast.driver.core.state.model import Phase
from holdfast.driver.loop import Loop
from holdfast.driver.people import admission
from holdfast.driver.ports import Key
from holdfast.kit.clock import SystemClock

Plant = Callable[[pytest.MonkeyPatch], None]


def _in_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    real = requests.on_submitted

    def broken(turn: Any, event: JobSubmitted) -> None:
        real(turn, event)
        if event.job == "sick":
            raise KeyError("a defect of ours")

    monkeypatch.setitem(decide.HANDLERS, JobSubmitted, broken)


def _in_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    real = decide.advance

    def broken(turn: Any, name: str) -> bool:
        if name == "sick":
            raise KeyError("a defect of ours")
        return real(turn, name)

    monkeypatch.setattr(decide, "advance", broken)


def _in_the_admission(monkeypatch: pytest.MonkeyPatch) -> None:
    real = admission._submit

    def broken(state: Any, event: JobSubmitted) -> Any:
        if event.job == "sick":
            raise KeyError("a defect of ours")
        return real(state, event)

    monkeypatch.setattr(admission, "_submit", broken)


PLANTED = pytest.mark.parametrize("plant", [_in_the_request, _in_what_follows, _in_the_admission])


@PLANTED
async def test_a_submission_that_meets_a_defect_is_refused_and_the_others_go_on(
    open_journal: Callable[[str], SqlJournal], monkeypatch: pytest.MonkeyPatch, plant: Plant
) -> None:
    loop = Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
    async with asyncio.TaskGroup() as group:
        task = await idle(loop, group)
        await loop.request(submitted("before"))
        plant(monkeypatch)
        with pytest.raises(Refused, match=r"sick.*a defect of ours"):
            await loop.request(submitted("sick"), key=Key("key", b"digest"))
        await loop.request(submitted("after"))
        assert list(loop.state.jobs) == ["before", "after"]
        assert not any(job.parked for job in loop.state.jobs.values())
        await loop.request(StopRequested(job="before"))
        assert loop.state.jobs["before"].phase is Phase.STOPPED
        monkeypatch.undo()  # as in the next version
        await loop.request(submitted("sick"), key=Key("key", b"digest"))
        assert "sick" in loop.state.jobs
        task.cancel()


@PLANTED
async def test_a_restart_does_not_meet_it_again(
    open_journal: Callable[[str], SqlJournal], monkeypatch: pytest.MonkeyPatch, plant: Plant
) -> None:
    plant(monkeypatch)
    for term in (1, 2):
        loop = Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
        async with asyncio.TaskGroup() as group:
            task = await idle(loop, group)
            with pytest.raises(Refused):
                await loop.request(submitted("sick"))
            await loop.request(submitted(f"sound-{term}"))
            assert loop.state.term == term
            assert "sick" not in loop.state.jobs
            task.cancel()


async def test_a_job_that_cannot_be_written_down_is_refused(
    open_journal: Callable[[str], SqlJournal],
) -> None:
    """JSON has lone surrogates; UTF-8 has none."""
    from msgspec.structs import replace

    loop = Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
    async with asyncio.TaskGroup() as group:
        task = await idle(loop, group)
        task_of = replace(PLAN.task, command=("train", "\ud800"))
        sick = JobSubmitted(job="sick", plan=replace(PLAN, task=task_of))
        with pytest.raises(Refused, match="surrogates"):
            await loop.request(sick)
        await loop.request(submitted("sound"))
        assert list(loop.state.jobs) == ["sound"]
        task.cancel()


async def test_a_defect_in_what_a_job_s_node_is_told_is_that_job_s_also_after_a_restart(
    open_journal: Callable[[str], SqlJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.driver.core import turn

    real = turn.desired_of

    def broken(state: Any, node: Any) -> Any:
        if node.job == "sick":
            raise KeyError("a defect of ours")
        return real(state, node)

    for term in (1, 2):
        loop = Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
        async with asyncio.TaskGroup() as group:
            task = await idle(loop, group)
            assert loop.state.term == term, "the term has begun, whatever its jobs meet"
            if term == 1:
                for name in ("n0", "n1", "n2", "n3"):
                    loop.post(NodeAppeared(node=name))
                await loop.request(submitted("sick"))
                await loop.request(submitted("sound"))
                assert all(node.job for node in loop.state.nodes.values())
                monkeypatch.setattr(turn, "desired_of", broken)
            else:
                assert loop.state.jobs["sick"].parked
                assert not loop.state.jobs["sound"].parked
                await loop.request(StopRequested(job="sound"))
                await loop.request(StopRequested(job="sick"))
                assert all(job.finished for job in loop.state.jobs.values())
            task.cancel()
