"""Entries that only restate their event are left out of what is read, and no answer is another."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from msgspec.structs import replace
from one_journal import OneJournal

from holdfast.driver.adapters.rest.telling import story_of, why_job, why_node
from holdfast.driver.adapters.sql.journal import _encode
from holdfast.driver.adapters.sql.told import RESTATES
from holdfast.driver.adapters.sql.told import told as read
from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Distrust
from holdfast.driver.noted import restates
from holdfast.driver.ports import Entry
from holdfast.lab.simulator.scenario import draw
from holdfast.lab.simulator.simulate import play
from holdfast.lab.simulator.world import World
from holdfast.protocol.messages import RankStatus

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def told(world: World, entries: list[Entry]) -> Iterator[object]:
    """All that people are told of a simulated life, of a journal that has these."""
    journal, state, now = OneJournal(entries), world.driver.state, world.agenda.now
    for job in state.jobs.values():
        yield why_job(journal, state, job, now=now)  # type: ignore[arg-type]
        yield story_of(journal, state, job)  # type: ignore[arg-type]
        yield story_of(journal, state, job, whole=True)  # type: ignore[arg-type]
    for node in state.nodes.values():
        yield why_node(journal, state, node, now=now)  # type: ignore[arg-type]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(some.integers(0, 9_999))
def test_the_answers_are_those_of_all_entries(seed: int) -> None:
    world = play(draw(seed))
    at = [str(BEGAN + timedelta(seconds=each.now)) for each in world.driver.journal]
    marked = [replace(each, at=when) for each, when in zip(world.driver.journal, at, strict=True)]
    assert any(each.restates for each in marked)
    plain = [replace(each, restates=False) for each in marked]
    written = [_encode(each).decode() for each in marked]
    short = list(map(read, written))
    assert list(told(world, short)) == list(told(world, plain))
    assert [RESTATES in each for each in written] == [each.restates for each in marked]
    for entry, one in zip(marked, short, strict=True):
        orders = tuple(each for each in entry.effects if isinstance(each, Distrust))
        assert one == replace(entry, effects=orders)


QUIET = e.NodeQuiet(job="a", node="n1", epoch=1)
ENDED = e.RanksExited(job="a", node="n1", epoch=1, exits=(RankStatus(rank=0, state="exited"),))


@pytest.mark.parametrize(
    ("event", "why", "incident", "expected"),
    [
        (QUIET, "no earlier rank is left on n1", None, True),
        (QUIET, "", None, True),
        (QUIET, "no earlier rank is left on n1; a starts attempt 1", None, False),
        (QUIET, "no earlier rank is left on n1", 3, False),
        (ENDED, "rank 0 on n1 ended", None, False),
        (e.Ticked(), "", None, False),
    ],
)
def test_an_entry_restates_where_no_part_of_its_reason_is_news(
    event: e.AnyEvent, why: str, incident: int | None, expected: bool
) -> None:
    assert restates(event, why, incident) is expected
