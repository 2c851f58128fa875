"""The loop towards people, and in bad times."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from driver_loops import POLICY, Flaky, idle, submitted
from waiting import DEADLINE_S, eventually_async

from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.batch.inbox import KeyReused, NotAccepting, Refused
from holdfast.driver.core.effects import AnyEffect
from holdfast.driver.core.events import (
    AnyEvent,
    DeleteRequested,
    NodeAppeared,
    ProgressSeen,
    StopRequested,
)
from holdfast.driver.core.state.model import Phase
from holdfast.driver.core.turn import Subject, Turn
from holdfast.driver.journal import draft
from holdfast.driver.loop import Loop
from holdfast.driver.ports import (
    Claim,
    Key,
    TemporaryError,
)
from holdfast.kit.clock import SystemClock

# ---------------------------------------------------------------- people's requests


async def test_a_request_returns_the_entry_that_is_in_the_journal(
    open_journal: Callable[[str], SqlJournal],
) -> None:
    journal = open_journal("journal")
    loop = Loop(journal, clock=SystemClock(), policy=POLICY)
    async with asyncio.TaskGroup() as group:
        task = await idle(loop, group)
        entry = await loop.request(submitted())
        assert journal.entries(job="job")[0] == entry
        assert loop.sequence >= entry.sequence
        again = await loop.request(StopRequested(job="job"))
        assert journal.entries(after=again.sequence - 1, limit=1) == [again]
        task.cancel()


async def test_an_idempotency_key_does_its_request_once(
    open_journal: Callable[[str], SqlJournal],
) -> None:
    journal = open_journal("journal")
    loop = Loop(journal, clock=SystemClock(), policy=POLICY)
    async with asyncio.TaskGroup() as group:
        task = await idle(loop, group)
        key = Key("key", b"digest")
        first, second = await asyncio.gather(
            loop.request(submitted(), key=key), loop.request(submitted(), key=key)
        )
        third = await loop.request(submitted(), key=key)
        assert first == second == third
        with pytest.raises(KeyReused, match="Use a new key"):
            await loop.request(submitted("other"), key=Key("key", b"another digest"))
        assert [each.jobs for each in journal.entries(job="job")] == [("job",)]
        task.cancel()


async def test_what_the_core_refuses_leaves_no_trace(
    open_journal: Callable[[str], SqlJournal],
) -> None:
    loop = Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
    async with asyncio.TaskGroup() as group:
        task = await idle(loop, group)
        await loop.request(submitted())
        before = loop.sequence
        with pytest.raises(Refused, match="taken by a job"):
            await loop.request(submitted())
        with pytest.raises(Refused, match="there is no 'nobody'"):
            await loop.request(DeleteRequested(job="nobody"))
        assert loop.sequence == before
        task.cancel()


# ---------------------------------------------------------------- bad times


async def test_while_the_disk_is_full_no_new_job_is_accepted_but_the_rest_goes_on(
    open_journal: Callable[[str], SqlJournal],
) -> None:
    journal = Flaky(open_journal("journal"))
    loop = Loop(journal, clock=SystemClock(), policy=POLICY)
    async with asyncio.TaskGroup() as group:
        task = await idle(loop, group)
        await loop.request(submitted())
        journal.short = "the disk is full"
        assert loop.accepting == "the disk is full"
        with pytest.raises(NotAccepting, match="the disk is full"):
            await loop.request(submitted("other"))
        await loop.request(StopRequested(job="job"))
        assert loop.state.jobs["job"].phase is Phase.STOPPED
        journal.short = None
        await loop.request(submitted("other"))
        assert loop.accepting is None
        task.cancel()


async def test_what_happened_waits_for_the_journal_and_what_was_asked_is_refused(
    open_journal: Callable[[str], SqlJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.driver.batch.commit.COMMIT_AGAIN_S", 0.01)
    journal = Flaky(open_journal("journal"))
    performed: list[AnyEffect] = []
    loop = Loop(journal, clock=SystemClock(), policy=POLICY)
    await loop.start(perform=performed.append, follow=lambda state: None)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(loop.run())
        journal.failures = 3
        loop.post(NodeAppeared(node="node-1"))
        with pytest.raises(NotAccepting, match="Free some disk space"):
            await loop.request(submitted())
        assert "node-1" not in loop.state.nodes
        assert performed == []
        await loop.committed_beyond(loop.sequence)
        assert "node-1" in loop.state.nodes
        assert "job" not in loop.state.jobs
        assert loop.accepting is None
        task.cancel()


@pytest.mark.parametrize("error", [KeyError("x"), AssertionError("no end")], ids=repr)
async def test_a_defect_met_in_one_job_parks_that_job_alone(
    open_journal: Callable[[str], SqlJournal], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    journal = open_journal("journal")
    loop = Loop(journal, clock=SystemClock(), policy=POLICY)
    async with asyncio.TaskGroup() as group:
        task = await idle(loop, group)
        await loop.request(submitted("sick"))
        await loop.request(submitted("sound"))
        real = draft.conclude

        def conclude(turn: Turn, event: AnyEvent) -> draft.Decision:
            if isinstance(event, ProgressSeen):
                turn.subject = Subject(job="sick")
                raise error
            return real(turn, event)

        monkeypatch.setattr(draft, "conclude", conclude)
        before = loop.sequence
        loop.post(ProgressSeen(job="sick", epoch=1, step=1))
        await loop.committed_beyond(before)
        assert repr(error) in loop.state.jobs["sick"].parked
        assert not loop.state.jobs["sound"].parked
        (entry,) = journal.entries(after=before)
        assert isinstance(entry.event, ProgressSeen)
        await loop.request(StopRequested(job="sound"))
        task.cancel()


async def test_where_the_answer_to_a_commit_was_lost_who_asked_is_told_no_untruth(
    open_journal: Callable[[str], SqlJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was written. A refusal would be a lie, and the next entry would have its number."""
    monkeypatch.setattr("holdfast.driver.batch.commit.COMMIT_AGAIN_S", 0.01)
    journal = Flaky(open_journal("journal"))
    loop = Loop(journal, clock=SystemClock(), policy=POLICY)
    async with asyncio.TaskGroup() as group:
        task = await idle(loop, group)
        journal.lost_answers = 2
        entry = await loop.request(submitted(), key=Key("key", b"digest"))
        assert journal.entries(job="job") == [entry]
        assert await loop.request(submitted(), key=Key("key", b"digest")) == entry
        await loop.request(submitted("other"))
        assert loop.accepting is None
        task.cancel()


async def test_while_the_journal_does_not_answer_nothing_is_accepted_and_that_is_said(
    open_journal: Callable[[str], SqlJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.driver.lead.term.TERM_CHECK_S", 0.01)
    monkeypatch.setattr("holdfast.driver.lead.term.ANSWER_S", 0.01)
    journal = Flaky(open_journal("journal"))
    answers, away = threading.Event(), threading.Event()
    looking = journal.check_term

    def check_term() -> None:
        if away.is_set():
            raise TemporaryError("journal: the database is away")
        assert answers.wait(DEADLINE_S)
        looking()

    journal.check_term = check_term
    loop = Loop(journal, clock=SystemClock(), policy=POLICY)
    async with asyncio.TaskGroup() as group:
        tasks = [await idle(loop, group), group.create_task(loop.term.keep())]
        await eventually_async(lambda: "has not answered" in (loop.accepting or ""))
        with pytest.raises(NotAccepting, match="has not answered"):
            await loop.request(submitted())
        monkeypatch.setattr("holdfast.driver.lead.term.ANSWER_S", DEADLINE_S)
        answers.set()
        await eventually_async(lambda: loop.accepting is None)
        away.set()
        await eventually_async(lambda: loop.accepting == "journal: the database is away")
        away.clear()
        await eventually_async(lambda: loop.accepting is None)
        await loop.request(submitted())
        for task in tasks:
            task.cancel()


async def test_what_is_left_of_a_failed_batch_may_lead_to_nothing_and_all_is_well_again(
    open_journal: Callable[[str], SqlJournal],
) -> None:
    """As where a keeper tells once more of the nodes that it has."""
    journal = Flaky(open_journal("journal"))
    loop = Loop(journal, clock=SystemClock(), policy=POLICY)
    async with asyncio.TaskGroup() as group:
        task = await idle(loop, group)
        loop.post(NodeAppeared(node="node-1"))
        await eventually_async(lambda: "node-1" in loop.state.nodes)
        journal.failures = 1
        loop.post(NodeAppeared(node="node-1"))
        with pytest.raises(NotAccepting):
            await loop.request(submitted())
        await eventually_async(lambda: loop.accepting is None)
        await loop.request(submitted())
        task.cancel()


async def test_a_request_whose_key_cannot_be_looked_up_is_refused_and_the_rest_goes_on(
    open_journal: Callable[[str], SqlJournal],
) -> None:
    journal = Flaky(open_journal("journal"))
    loop = Loop(journal, clock=SystemClock(), policy=POLICY)
    async with asyncio.TaskGroup() as group:
        task = await idle(loop, group)
        known = journal.claim

        def claim(key: str) -> Claim | None:
            raise TemporaryError("journal: the database is away")

        journal.claim = claim
        loop.post(NodeAppeared(node="node-1"))
        with pytest.raises(NotAccepting, match="the database is away"):
            await loop.request(submitted(), key=Key("key", b"digest"))
        await eventually_async(lambda: "node-1" in loop.state.nodes)
        journal.claim = known
        await eventually_async(lambda: loop.accepting is None)
        await loop.request(submitted(), key=Key("key", b"digest"))
        task.cancel()
