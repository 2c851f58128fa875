"""A defect in one job's or node's affairs, planted: all others go on, and nothing spins."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.driver.core import events as e
from holdfast.driver.core.deadlines import next_deadline
from holdfast.driver.core.handlers import stalls
from holdfast.driver.core.state.model import Timer
from holdfast.driver.journal.draft import Draft

Make = Callable[..., Any]
PLACES = (
    "handlers.ticks._job",
    "decide.advance",
    "placing.allocation._fill_places",
    "placing.allocation._start",
)
"""Where a turn goes from job to job."""


def planted(monkeypatch: pytest.MonkeyPatch, place: str, sick: str) -> None:
    target = f"holdfast.driver.core.{place}"
    module, _, name = target.rpartition(".")
    import importlib

    real = getattr(importlib.import_module(module), name)

    def broken(turn: Any, job: str, *rest: Any) -> Any:
        if job == sick:
            raise KeyError("a defect of ours")
        return real(turn, job, *rest)

    monkeypatch.setattr(target, broken)


class Drafted:
    """A life whose events are decided as the loop decides them."""

    def __init__(self, life: Any) -> None:
        self.life = life
        self.notes: list[str] = []
        life.do = self.do

    def do(self, event: e.AnyEvent, *, after_s: float = 0.01) -> Any:
        life = self.life
        life.now += after_s
        draft = Draft(state=life.state, now=life.now, at="", policy=life.policy)
        draft.add(event)
        life.state = draft.state
        for entry in draft.entries:
            life.effects += entry.effects
            self.notes.append(entry.why)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("sick", ["a", "b", "c"])
def test_all_but_the_one_with_the_defect_finish(
    life: Any, monkeypatch: pytest.MonkeyPatch, place: str, sick: str
) -> None:
    drafted = Drafted(life)
    for job in ("a", "b", "c"):
        life.submit(job, nodes=1, ranks_per_node=1, deadline_s=1_000.0)
    planted(monkeypatch, place, sick)
    for name in ("n0", "n1", "n2"):
        life.node(name)
    for job in ("a", "b", "c"):
        if job != sick and life.state.jobs[job].places:
            life.answer(name=job)
            life.ends_well(job)
    life.do(e.Ticked(), after_s=2_000.0)
    jobs = life.state.jobs
    assert [name for name, job in jobs.items() if not job.finished] == [sick]
    assert "a defect of ours" in jobs[sick].parked
    due_s = next_deadline(life.state)
    assert due_s is None or due_s > life.now
    assert sum("is parked" in note for note in drafted.notes) == 1


def test_what_the_tick_was_for_is_done_for_the_others(
    life: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Drafted(life)
    for job in ("a", "b"):
        life.submit(job, nodes=1, ranks_per_node=1, deadline_s=100.0)
    planted(monkeypatch, "handlers.ticks._job", "a")
    life.do(e.Ticked(), after_s=100.0)
    assert life.state.jobs["a"].parked
    assert life.state.jobs["b"].finished, "its deadline has passed"


def test_a_standstill_of_the_driver_is_taken_out_for_the_others(
    life: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Drafted(life)
    for job in ("a", "b"):
        life.submit(job, nodes=1, ranks_per_node=1)
    for name in ("n0", "n1"):
        life.node(name)
    before = dict(life.state.jobs["b"].timers)
    real = stalls._Later.job

    def broken(later: Any, job: Any) -> None:
        if job.name == "a":
            raise KeyError("a defect of ours")
        real(later, job)

    monkeypatch.setattr(stalls._Later, "job", broken)
    life.do(e.Stalled(stood_s=20.0))
    assert life.state.jobs["a"].parked
    after = life.state.jobs["b"].timers
    assert before
    assert {timer: round(after[timer] - at) for timer, at in before.items()} == dict.fromkeys(
        before, 20
    )


def test_a_node_with_a_defect_is_put_off(life: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from msgspec.structs import replace

    drafted = Drafted(life)
    for name in ("n0", "n1"):
        life.node(name)
    nodes = {name: replace(node, retry_s=life.now) for name, node in life.state.nodes.items()}
    life.state = replace(life.state, nodes=nodes)

    def broken(node: Any) -> Any:
        if node.name == "n0":
            raise KeyError("a defect of ours")
        return []

    monkeypatch.setattr("holdfast.driver.core.handlers.ticks.calls_for", broken)
    life.do(e.Ticked())
    assert life.state.nodes["n1"].retry_s is None
    assert (life.state.nodes["n0"].retry_s or 0.0) > life.now + 30.0
    assert any("n0 is looked at again in 60 s: defect: KeyError" in note for note in drafted.notes)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(Timer)), st.floats(0.1, 50.0))
def test_whatever_timer_meets_a_defect_is_due_no_more(timer: Timer, after_s: float) -> None:
    from msgspec.structs import replace
    from tests.core.conftest import Life

    from holdfast.driver.core.handlers import ticks

    def broken(turn: Any, job: Any) -> None:
        raise KeyError("a defect of ours")

    life = Life()
    drafted = Drafted(life)
    life.submit("a", nodes=1, ranks_per_node=1)
    jobs = {name: replace(job, timers={timer: life.now}) for name, job in life.state.jobs.items()}
    life.state = replace(life.state, jobs=jobs)
    real = ticks.HANDLERS[timer]
    ticks.HANDLERS[timer] = broken
    try:
        life.do(e.Ticked(), after_s=after_s)  # type: ignore[no-untyped-call, unused-ignore]
    finally:
        ticks.HANDLERS[timer] = real
    assert life.state.jobs["a"].parked
    assert next_deadline(life.state) is None
    assert len(drafted.notes) >= 1
