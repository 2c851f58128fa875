"""When a leader that is cut off ends, to the second: in virtual time, as docs/journal.md states it.

That its way can really be cut is in `test_kubernetes_cut_off`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from driver_loops import POLICY, InMemory, LoopClock

from holdfast.driver.lead.standby import STEP_DOWN_S, keep_lead
from holdfast.driver.lead.term import TERM_CHECK_S
from holdfast.driver.loop import Loop
from holdfast.driver.ports import TakenOver, TemporaryError

pytestmark = pytest.mark.looptime

STATED = Path(__file__).parents[2] / "docs" / "journal.md"
CUT_S = 4.5
"""Between two looks at the term."""
HOUR_S = 3_600.0

Look = Callable[[], Awaitable[None]]


class Api:
    """The Lease of an API server that can be reached or not."""

    def __init__(self, *, cut: bool) -> None:
        self.cut = cut

    async def seek(self) -> str:
        if self.cut and _now_s() >= CUT_S:
            raise TemporaryError("the API server does not answer")
        return ""

    async def close(self) -> None:
        """There is nothing to give up."""


def _now_s() -> float:
    return asyncio.get_running_loop().time()


async def answers() -> None:
    """The term is ours."""


async def refuses() -> None:
    if _now_s() >= CUT_S:
        raise TemporaryError("the database is away")


async def hangs() -> None:
    if _now_s() >= CUT_S:
        await asyncio.Event().wait()


async def is_away_for_eight_seconds() -> None:
    if CUT_S <= _now_s() < CUT_S + 8:
        raise TemporaryError("the database is away")


async def is_anothers() -> None:
    if _now_s() >= CUT_S:
        raise TakenOver("another driver has taken over")


class End(NamedTuple):
    at_s: float
    why: str


async def end(look: Look, api: Api) -> End | None:
    """Of a driver whose database answers like this; None where it leads for an hour."""
    loop = Loop(InMemory(), clock=LoopClock(), policy=POLICY)
    loop.term._look = lambda: asyncio.ensure_future(look())  # a thread would be an eternity
    keeping = [loop.term.keep(step_down_s=STEP_DOWN_S), keep_lead(api)]
    tasks = [asyncio.create_task(each) for each in keeping]
    done, _ = await asyncio.wait(tasks, timeout=HOUR_S, return_when=asyncio.FIRST_COMPLETED)
    ended = _now_s()
    for each in tasks:
        each.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert not done or isinstance(ends[0], TakenOver)
    return End(ended, str(ends[0])) if done else None


@pytest.mark.parametrize("api", [False, True], ids=["the database alone", "both"])
@pytest.mark.parametrize(
    ("look", "why"),
    [(refuses, "the database is away"), (hangs, "the journal has not answered for 3 s")],
    ids=["refuses", "hangs"],
)
async def test_cut_off_from_its_database_it_ends_ten_seconds_after_the_last_answer(
    look: Look, why: str, api: bool
) -> None:
    ended = await end(look, Api(cut=api))
    assert ended is not None
    assert CUT_S + STEP_DOWN_S - TERM_CHECK_S <= ended.at_s <= CUT_S + STEP_DOWN_S
    assert f"another may lead since {STEP_DOWN_S:.0f} s ({why}" in ended.why


@pytest.mark.parametrize("look", [answers, is_away_for_eight_seconds])
async def test_cut_off_from_the_api_server_whoever_has_the_term_leads_on(look: Look) -> None:
    assert await end(look, Api(cut=True)) is None


@pytest.mark.parametrize("api", [False, True], ids=["reached", "cut off"])
async def test_once_another_has_the_term_it_ends_within_a_second(api: bool) -> None:
    ended = await end(is_anothers, Api(cut=api))
    assert ended is not None
    assert CUT_S <= ended.at_s <= CUT_S + 1.0


def test_what_is_stated_is_what_is_done() -> None:
    rows = [line for line in STATED.read_text().splitlines() if line.startswith("| is cut off")]
    stated = {row.split(" | ")[0]: row.split(" | ")[1] for row in rows}
    api, database, both = stated.values()
    assert api.startswith("goes on, and renews no Lease; ends within a second once another")
    assert database.startswith(f"ends after {STEP_DOWN_S:.0f} s without an answer")
    assert both == "the same |"
