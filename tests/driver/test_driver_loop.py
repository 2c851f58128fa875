"""The loop towards people, in bad times, and with the clock."""

import asyncio
import threading
from collections.abc import Callable, Sequence

import msgspec
import pytest
from waiting import DEADLINE_S, eventually_async

from holdfast.driver import draft
from holdfast.driver.adapters.journal import SqlJournal
from holdfast.driver.core.effects import AnyEffect
from holdfast.driver.core.events import (
    AnyEvent,
    DeleteRequested,
    ExecutorConnected,
    JobSubmitted,
    NodeAppeared,
    Plan,
    ProgressSeen,
    StopRequested,
    Ticked,
)
from holdfast.driver.core.model import Phase, State
from holdfast.driver.core.policy import Policy
from holdfast.driver.loop import KeyReused, Loop, NotAccepting, Refused
from holdfast.driver.ports import (
    Claim,
    Entry,
    InDoubt,
    Key,
    Taken,
    TakenOver,
    TemporaryError,
)
from holdfast.kit.clock import SystemClock
from holdfast.protocol.messages import Task

POLICY = Policy()
PLAN = Plan(task=Task(command=("train",), workdir="."), nodes=2, ranks_per_node=1)

# ---------------------------------------------------------------- people's requests


async def idle(loop: Loop, group: asyncio.TaskGroup) -> asyncio.Task[None]:
    """A driver without nodes: jobs stay pending."""
    await loop.start(perform=lambda effect: None, follow=lambda state: None)
    return group.create_task(loop.run())


def submitted(job: str = "job") -> JobSubmitted:
    return JobSubmitted(job=job, plan=PLAN)


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


class Flaky:
    """A journal whose next commits fail."""

    def __init__(self, journal: SqlJournal, *, failures: int = 0, short: str | None = None) -> None:
        self._journal = journal
        self.failures = failures
        self.lost_answers = 0
        self.short = short
        self.entries, self.claim = journal.entries, journal.claim
        self.take_over, self.check_term = journal.take_over, journal.check_term

    async def commit(
        self, entries: Sequence[Entry], state: bytes, *, claims: Sequence[Claim] = ()
    ) -> None:
        if self.failures:
            self.failures -= 1
            raise TemporaryError("journal: nothing could be written. Free some disk space.")
        await self._journal.commit(entries, state, claims=claims)
        if self.lost_answers:
            self.lost_answers -= 1
            raise InDoubt("journal: the database is away")

    def shortage(self) -> str | None:
        return self.short


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
    monkeypatch.setattr("holdfast.driver.loop.COMMIT_AGAIN_S", 0.01)
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


async def test_a_driver_that_was_replaced_ends(open_journal: Callable[[str], SqlJournal]) -> None:
    old = Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
    nothing = {"perform": lambda effect: None, "follow": lambda state: None}
    await old.start(**nothing)
    new = Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
    await new.start(**nothing)
    old.post(NodeAppeared(node="node-1"))
    with pytest.raises(TakenOver, match="another driver has taken over with term 2"):
        await old.run()


async def test_a_driver_that_was_replaced_ends_though_it_has_nothing_to_write(
    open_journal: Callable[[str], SqlJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.driver.loop.TERM_CHECK_S", 0.01)
    old = Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
    kept = asyncio.create_task(old.keep_term())
    Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
    with pytest.raises(TakenOver, match="another driver has taken over with term 2"):
        await asyncio.wait_for(kept, DEADLINE_S)


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
        real = draft.decide

        def decide(state: State, event: AnyEvent, now: float, policy: Policy) -> draft.Decision:
            if isinstance(event, ProgressSeen):
                raise error
            return real(state, event, now, policy)

        monkeypatch.setattr(draft, "decide", decide)
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
    monkeypatch.setattr("holdfast.driver.loop.COMMIT_AGAIN_S", 0.01)
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
    monkeypatch.setattr("holdfast.driver.loop.TERM_CHECK_S", 0.01)
    monkeypatch.setattr("holdfast.driver.loop.ANSWER_S", 0.01)
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
        tasks = [await idle(loop, group), group.create_task(loop.keep_term())]
        await eventually_async(lambda: "has not answered" in (loop.accepting or ""))
        with pytest.raises(NotAccepting, match="has not answered"):
            await loop.request(submitted())
        monkeypatch.setattr("holdfast.driver.loop.ANSWER_S", DEADLINE_S)
        answers.set()
        await eventually_async(lambda: loop.accepting is None)
        away.set()
        await eventually_async(lambda: loop.accepting == "journal: the database is away")
        away.clear()
        await eventually_async(lambda: loop.accepting is None)
        await loop.request(submitted())
        for task in tasks:
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


# ---------------------------------------------------------------- time


class LoopClock(SystemClock):
    """The event loop's own time, which tests make virtual."""

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()


class InMemory:
    """A journal for virtual time, in which a thread would be an eternity."""

    def __init__(self) -> None:
        self.committed: list[Entry] = []
        self.state: bytes | None = None

    def take_over(self) -> Taken:
        last = self.committed[-1] if self.committed else None
        return Taken(
            term=last.term + 1 if last else 1,
            state=self.state,
            sequence=last.sequence if last else 0,
            now=last.now if last else 0.0,
        )

    def check_term(self) -> None:
        """Nobody else is there."""

    async def commit(
        self, entries: Sequence[Entry], state: bytes, *, claims: Sequence[Claim] = ()
    ) -> None:
        self.committed += entries
        self.state = state

    def entries(self, **_: object) -> list[Entry]:
        return self.committed

    def claim(self, key: str) -> Claim | None:
        return None

    def shortage(self) -> str | None:
        return None


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


async def test_a_journal_that_was_put_back_ends_its_driver_and_the_next_has_a_later_term(
    open_journal: Callable[[str], SqlJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else executors, which have followed drivers that it does not know of, would follow nobody."""
    monkeypatch.setattr("holdfast.driver.loop.TERM_CHECK_S", 0.01)
    old = Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
    await old.start(perform=lambda effect: None, follow=lambda state: None)
    kept = asyncio.create_task(old.keep_term())
    old.post(ExecutorConnected(node="n", incarnation="i", address="a", term=1))
    await eventually_async(lambda: old.accepting is None)
    old.post(ExecutorConnected(node="n", incarnation="i", address="a", term=41))
    with pytest.raises(TakenOver, match="followed term 41, later than this driver's 1: it was put"):
        await asyncio.wait_for(kept, DEADLINE_S)
    new = open_journal("journal")
    assert new.take_over().term == 42


async def test_a_driver_whose_executors_follow_another_that_leads_leaves_the_term_alone(
    open_journal: Callable[[str], SqlJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.driver.loop.TERM_CHECK_S", 0.01)
    old = Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
    new = open_journal("journal")
    new.take_over()
    old.post(ExecutorConnected(node="n", incarnation="i", address="a", term=2))
    with pytest.raises(TakenOver, match="another driver has taken over with term 2"):
        await asyncio.wait_for(old.keep_term(), DEADLINE_S)
    new.check_term()


async def test_a_driver_whose_journal_does_not_answer_steps_down_where_another_may_lead(
    open_journal: Callable[[str], SqlJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.driver.loop.TERM_CHECK_S", 0.01)
    journal = Flaky(open_journal("journal"))

    def check_term() -> None:
        raise TemporaryError("journal: the database is away")

    journal.check_term = check_term
    loop = Loop(journal, clock=SystemClock(), policy=POLICY)
    with pytest.raises(TakenOver, match=r"another may lead since 0 s \(journal: the database is"):
        await asyncio.wait_for(loop.keep_term(step_down_s=0.1), DEADLINE_S)
