"""Pauses are learned where in the script they were: a long one at one line delays no hang at
another, and none is forgotten by a driver that takes over."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.driver.watch import Watch, pauses
from holdfast.protocol.faults import Finding, Kind, Pause, Weight
from holdfast.protocol.messages import RankProgress

EVALUATES, SAVES = "evaluate (train.py:31)", "save (train.py:90)"


@pytest.fixture
def running(cluster: Any) -> Any:
    """Two nodes, four ranks, ten seconds of steps of .2 s; stuck is who stands for 15 s."""
    two = cluster(2)
    assert two.go(10) == []
    return two


def stands(cluster: Any, frame: str, **seen: Any) -> None:
    """Rank 2 stands at `frame`; all others wait for it in a collective."""
    cluster.running = False
    began = cluster.now

    def alter(progress: RankProgress) -> RankProgress:
        if progress.rank == 2:
            since_s = cluster.now - began
            fields = {"frame": frame, "frame_still_s": since_s, **seen}
            if "silent_s" in seen:
                fields["silent_s"] = since_s
            return replace(progress, **fields)
        (group,) = progress.groups
        return replace(progress, groups=(replace(group, enqueued=group.enqueued + 1),))

    cluster.alter = alter


def paused(cluster: Any, frame: str, for_s: float, **seen: Any) -> list[Finding]:
    """Rank 2 paused there for so long; what was told, with the five seconds after it."""
    stands(cluster, frame, **seen)
    told: list[Finding] = cluster.go(for_s)
    cluster.alter, cluster.running = (lambda seen: seen), True
    return told + cluster.go(5)


def acted_s(cluster: Any, frame: str, **seen: Any) -> float:
    """After how many seconds of standing there it is acted on."""
    stands(cluster, frame, **seen)
    began = cluster.now
    while not any(each.weight is not Weight.REPORT for each in cluster.go(0.5)):
        assert cluster.now - began < 700
    return float(cluster.now - began)


def said_s(cluster: Any, frame: str, **seen: Any) -> float:
    stands(cluster, frame, **seen)
    began = cluster.now
    while not cluster.go(0.5):
        assert cluster.now - began < 700
    return float(cluster.now - began)


def test_where_it_paused_before_it_is_acted_on_beyond_twice_that(running: Any) -> None:
    paused(running, EVALUATES, 14)
    assert acted_s(running, EVALUATES) == pytest.approx(28, abs=2)


def test_a_pause_at_one_line_delays_no_hang_at_another(running: Any) -> None:
    paused(running, EVALUATES, 14)
    assert acted_s(running, SAVES) == pytest.approx(15, abs=1.5)


def test_nor_that_it_is_said(running: Any) -> None:
    paused(running, EVALUATES, 60, frame_still_s=0.1)
    assert said_s(running, SAVES) <= 11
    running.alter, running.running = (lambda seen: seen), True
    running.go(5)
    assert said_s(running, EVALUATES, frame_still_s=0.1) == pytest.approx(120, abs=2)


@pytest.mark.parametrize(("frame", "limit_s"), [(EVALUATES, 20), (SAVES, 5)])
def test_a_call_that_lets_no_pulse_go_is_known_at_its_line_alone(
    cluster: Any, frame: str, limit_s: float
) -> None:
    two = cluster(2)
    two.expect(pauses={EVALUATES: Pause(lasted_s=10, dead_s=10)})
    two.go(10)
    assert acted_s(two, frame, silent_s=1.0) == pytest.approx(limit_s, abs=1.5)


def test_places_where_a_step_took_a_little_longer_push_none_of_them_out(running: Any) -> None:
    paused(running, EVALUATES, 14)
    for line in range(pauses.MOST):
        paused(running, f"step (train.py:{line})", 3.5)
    assert acted_s(running, EVALUATES) == pytest.approx(28, abs=2)


def test_who_works_is_known_by_its_function_for_it_goes_through_its_lines(running: Any) -> None:
    paused(running, "evaluate (train.py:31)", 60, frame_still_s=0.1)
    stands(running, "evaluate (train.py:47)", frame_still_s=0.1)
    assert running.go(100) == []


def test_a_pause_at_work_of_nearly_the_time_for_it_is_given_twice_that(cluster: Any) -> None:
    two = cluster(2)
    two.expect(pause_max_s=60.0)
    two.go(10)
    paused(two, EVALUATES, 55, frame_still_s=0.1)
    assert acted_s(two, EVALUATES, frame_still_s=0.1) == pytest.approx(110, abs=2)


def test_the_all_clear_names_the_place_and_the_next_report_what_paused_there(running: Any) -> None:
    told = paused(running, EVALUATES, 14)
    clear = told[-1]
    assert clear.kind is Kind.GOES_ON
    assert clear.summary.endswith(f"from now on a pause of 13 s is known at {EVALUATES}")
    assert clear.pauses[EVALUATES].idle_s == pytest.approx(14, abs=1)
    stands(running, EVALUATES)
    (said,) = running.go(27.5)
    texts = [each.text for each in said.evidence]
    assert any(text.startswith("the longest pause there that ended by itself") for text in texts)


def test_one_that_nobody_told_of_is_learned_as_well(running: Any) -> None:
    paused(running, EVALUATES, 8)
    assert paused(running, EVALUATES, 14) == [], "it is not said before twice eight seconds"
    assert acted_s(running, EVALUATES) == pytest.approx(28, abs=2)


def _anew(cluster: Any) -> Watch:
    watch = Watch()
    watch.expect(cluster.watch._context.expected["job"])
    return watch


def test_a_driver_that_takes_over_knows_them(running: Any) -> None:
    (*_, clear) = paused(running, EVALUATES, 14)
    running.expect(pauses=clear.pauses)
    running.watch = _anew(running)
    running.go(12)
    assert acted_s(running, EVALUATES) == pytest.approx(28, abs=2)


def test_a_restart_teaches_nothing_and_keeps_what_is_known(running: Any) -> None:
    paused(running, EVALUATES, 14)
    stands(running, SAVES)
    running.go(20)
    running.alter, running.running, running.epoch = (lambda seen: seen), True, 2
    running.expect(best_step=running.step)
    running.go(10)
    assert acted_s(running, SAVES) == pytest.approx(15, abs=1.5)


PAUSES = st.builds(
    Pause,
    lasted_s=st.floats(0, 1e4),
    idle_s=st.floats(0, 1e4),
    dead_s=st.floats(0, 1e4),
)
PLACES = st.dictionaries(st.text(max_size=3), PAUSES, max_size=40)


@given(PLACES, PLACES)
def test_what_is_kept_is_bounded_the_longest_of_each_place_and_the_newest(
    known: dict[str, Pause], more: dict[str, Pause]
) -> None:
    kept = pauses.longest(known, more)
    assert len(kept) <= pauses.MOST
    assert set(list(more)[-pauses.MOST :]) <= set(kept)
    for line, each in kept.items():
        values = [told[line] for told in (known, more) if line in told]
        assert each.idle_s == max(one.idle_s for one in values)
        assert each.lasted_s == max(one.lasted_s for one in values)
