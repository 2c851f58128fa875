"""Each condition under which a link is told, by windows that are made one by one."""

from itertools import permutations
from typing import Any

import pytest

from holdfast.driver.watch import slow_links
from holdfast.driver.watch.detector import Context
from holdfast.driver.watch.flows import Moved, Pair
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import Expectation, Settings
from holdfast.driver.watch.slow_links import IN_A_ROW, LEARNED, Links, SlowLinks
from holdfast.protocol.faults import Finding, Kind

Windows = dict[Pair, Moved]
STEPS, WINDOW_S = 40, 10.0
RING: list[Pair] = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("f", "a")]


def at(mb_per_s: float, busy: float = 0.4, steps: int = STEPS, **other: Any) -> Moved:
    fields = {"segments": 100_000, "resent": 0, "rtt_s": 1e-4, **other}
    sent = int(mb_per_s * 1e6 * busy * WINDOW_S)
    busy_s = busy * WINDOW_S
    return Moved(sent_bytes=sent, busy_s=busy_s, steps=steps, window_s=WINDOW_S, **fields)


def ring(usual: Moved, **one: Moved) -> Windows:
    return {pair: one.get("".join(pair), usual) for pair in RING}


def told(*windows: Windows) -> list[Finding]:
    job, links = JobSeen(expected=Expectation(job="job", epoch=1, seats=()), began_s=0.0), Links(1)
    return [each for moved in windows for each in slow_links.judge(links, moved, job)]


def times(moved: Windows, count: int = IN_A_ROW) -> list[Windows]:
    return [moved] * count


@pytest.mark.parametrize(("busy", "is_told"), [(0.15, False), (0.25, True)])
def test_a_link_that_nobody_waits_for_is_not_told(busy: float, is_told: bool) -> None:
    moved = ring(at(100, 0.1), ab=at(15, busy))
    assert bool(told(*times(moved))) is is_told


@pytest.mark.parametrize(("rate", "is_told"), [(25, False), (15, True)])
def test_from_the_start_a_fifth_of_others_is_slow(rate: float, is_told: bool) -> None:
    assert bool(told(*times(ring(at(100), ab=at(rate))))) is is_told


@pytest.mark.parametrize(("rate", "is_told"), [(40, False), (30, True)])
def test_of_what_was_before_a_third_is_slow(rate: float, is_told: bool) -> None:
    before, slower = times(ring(at(100, 0.2)), LEARNED), ring(at(100, 0.1), ab=at(rate, steps=20))
    assert bool(told(*before, *times(slower))) is is_told


@pytest.mark.parametrize(("busy", "is_told"), [(0.2, False), (0.02, True)])
def test_flows_of_another_kind_are_not_compared_at_once(busy: float, is_told: bool) -> None:
    """A twentieth of the bytes, or half of them."""
    moved = ring(at(400, busy), ab=at(8, 0.5))
    assert bool(told(*times(moved))) is is_told


def test_who_was_faster_than_others_and_is_no_more_is_not_told() -> None:
    before, now = times(ring(at(100), ab=at(400)), LEARNED), ring(at(100), ab=at(100, steps=10))
    assert told(*before, *times(now)) == []


@pytest.mark.parametrize(("steps", "is_told"), [(STEPS, False), (20, True)])
def test_a_link_for_which_steps_take_no_longer_is_not_told(steps: int, is_told: bool) -> None:
    before = times(ring(at(100, 0.2)), LEARNED)
    now = ring(at(100, 0.1), ab=at(30, 0.7, steps=steps))
    assert bool(told(*before, *times(now))) is is_told


def test_a_node_with_most_of_the_flows_is_compared_with_others() -> None:
    """As a parameter server, or one that all send to."""
    own = {pair: at(15) for peer in "acde" for pair in permutations("b" + peer, 2)}
    moved = own | {pair: at(100) for peers in ("ac", "de") for pair in permutations(peers, 2)}
    assert [each.node for each in told(*times(moved))] == ["b"]


def test_a_flow_that_shows_it_a_window_later_is_told_with_its_node() -> None:
    first, both = ring(at(100), ab=at(15)), ring(at(100), ab=at(15), bc=at(15))
    assert [each.node for each in told(first, *times(both, 2))] == ["b"]


@pytest.mark.parametrize(("lost", "is_told"), [(0.004, False), (0.02, True)])
def test_a_share_that_is_sent_again_is_told(lost: float, is_told: bool) -> None:
    moved = ring(at(100, resent=100), ab=at(100, resent=int(100_000 * lost)))
    assert bool(told(*times(moved))) is is_told


@pytest.mark.parametrize(("lost", "is_told"), [(0.008, False), (0.02, True)])
def test_of_two_flows_more_has_to_be_lost(lost: float, is_told: bool) -> None:
    moved = {("a", "b"): at(100, resent=int(100_000 * lost)), ("b", "a"): at(100)}
    assert bool(told(*times(moved))) is is_told


def test_both_ways_between_two_nodes_are_one_link() -> None:
    moved = ring(at(100)) | {("a", "b"): at(15), ("b", "a"): at(15), ("d", "c"): at(100)}
    (found,) = told(*times(moved))
    assert (found.node, len(found.evidence)) == (None, 2)


def test_what_an_earlier_driver_told_is_taken_back() -> None:
    detector, job = (
        SlowLinks(),
        JobSeen(expected=Expectation(job="job", epoch=1, seats=()), began_s=0.0),
    )
    recalled = {"job": {Kind.LINK_SLOW: None}}
    context = Context(settings=Settings(), now=100.0, sees_most=True, recalled=recalled)
    links = detector._of(job, context)
    windows = [slow_links.judge(links, ring(at(100)), job) for _ in range(slow_links.WELL)]
    assert [each.kind for found in windows for each in found] == [Kind.LINK_WELL]
