"""Who has the say, as the loop sees it: a driver that was replaced, a journal put back or away."""

import asyncio
from collections.abc import Callable

import pytest
from driver_loops import POLICY
from waiting import DEADLINE_S, eventually_async

from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.core.events import (
    ExecutorConnected,
    NodeAppeared,
)
from holdfast.driver.lead.term import CERTAIN_S
from holdfast.driver.loop import Loop
from holdfast.driver.ports import (
    TakenOver,
)
from holdfast.kit.clock import SystemClock


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
    monkeypatch.setattr("holdfast.driver.lead.term.TERM_CHECK_S", 0.01)
    old = Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
    kept = asyncio.create_task(old.term.keep())
    Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
    with pytest.raises(TakenOver, match="another driver has taken over with term 2"):
        await asyncio.wait_for(kept, DEADLINE_S)


async def test_who_changes_what_is_outside_waits_until_the_term_was_seen_to_be_ours_of_late(
    open_journal: Callable[[str], SqlJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.driver.lead.term.TERM_CHECK_S", 0.01)
    loop = Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
    before = asyncio.create_task(loop.term.certain())
    await asyncio.sleep(0)
    assert not before.done(), "nobody has looked"
    kept = asyncio.create_task(loop.term.keep())
    await asyncio.wait_for(before, DEADLINE_S)
    await asyncio.wait_for(loop.term.certain(), DEADLINE_S)
    open_journal("journal").take_over()
    with pytest.raises(TakenOver):
        await asyncio.wait_for(kept, DEADLINE_S)
    loop.term._ours_s -= CERTAIN_S  # so long nothing ran here
    after = asyncio.create_task(loop.term.certain())
    await asyncio.sleep(0)
    assert not after.done(), "what was decided before another took over is not done"
    after.cancel()


async def test_a_journal_that_was_put_back_ends_its_driver_and_the_next_has_a_later_term(
    open_journal: Callable[[str], SqlJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else executors, which have followed drivers that it does not know of, would follow nobody."""
    monkeypatch.setattr("holdfast.driver.lead.term.TERM_CHECK_S", 0.01)
    old = Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
    await old.start(perform=lambda effect: None, follow=lambda state: None)
    kept = asyncio.create_task(old.term.keep())
    old.post(ExecutorConnected(node="n", incarnation="i", address="a"))
    await eventually_async(lambda: old.accepting is None)
    old.post(ExecutorConnected(node="n", incarnation="i", address="a", term=41))
    with pytest.raises(TakenOver, match="driver's term 41, and this one's is 1: it was put back"):
        await asyncio.wait_for(kept, DEADLINE_S)
    new = open_journal("journal")
    assert new.take_over().term == 42


async def test_a_driver_whose_executors_follow_another_that_leads_leaves_the_term_alone(
    open_journal: Callable[[str], SqlJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.driver.lead.term.TERM_CHECK_S", 0.01)
    old = Loop(open_journal("journal"), clock=SystemClock(), policy=POLICY)
    new = open_journal("journal")
    new.take_over()
    old.post(ExecutorConnected(node="n", incarnation="i", address="a", term=2))
    with pytest.raises(TakenOver, match="another driver has taken over with term 2"):
        await asyncio.wait_for(old.term.keep(), DEADLINE_S)
    new.check_term()
