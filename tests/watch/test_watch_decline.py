"""A job that becomes slower over days is told, once; healthy noise and slow data are not."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.driver.watch import Expectation, decline
from holdfast.driver.watch.decline import Windows
from holdfast.protocol.faults import Finding, Kind, Weight

JOB = Expectation(job="job", epoch=1, seats=())


class Days:
    """Hours of a job, each a window, of looks that vary."""

    def __init__(self, noise: float = 0.02, seed: int = 1) -> None:
        self.known, self.noise, self.chance = Windows(), noise, Random(seed)
        self.expected = JOB

    def go(self, hours: int, step_s: float, unit: str = "step") -> list[Finding]:
        found: list[Finding] = []
        for _ in range(hours):
            hour = self.chance.lognormvariate(0, self.noise)
            for _ in range(decline.LOOKS):
                value_s = step_s * hour * self.chance.lognormvariate(0, self.noise)
                self.known, more = decline.judge(self.known, value_s, unit, self.expected)
                found += more
        return found


def test_a_job_that_drifts_by_a_tenth_is_told_once_and_taken_back() -> None:
    days = Days(noise=0.01)
    assert days.go(24, 1.0) == []
    found = [each for hour in range(48) for each in days.go(1, 1.0 + 0.1 * min(1, hour / 24))]
    (said,) = found
    assert (said.kind, said.weight) == (Kind.DECLINE, Weight.REPORT)
    assert "slower than at its own best, in each of the last 12 hours" in said.summary
    assert [each.kind for each in days.go(12, 1.0)] == [Kind.AT_SPEED]


@pytest.mark.parametrize("change", [{"version": 2}, {"seats": (None,)}])
def test_another_version_or_layout_has_a_best_of_its_own(change: dict[str, object]) -> None:
    days = Days()
    days.go(24, 1.0)
    days.expected = replace(JOB, **change)
    assert days.go(48, 1.2) == []


@settings(max_examples=15, deadline=None)
@given(
    noise=st.floats(0, 0.03),
    seed=st.integers(0, 10**6),
    slow=st.lists(st.tuples(st.integers(1, 10), st.floats(1.0, 1.6)), max_size=6),
)
def test_healthy_noise_and_slow_parts_of_the_data_are_not_told(
    noise: float, seed: int, slow: list[tuple[int, float]]
) -> None:
    days = Days(noise, seed)
    assert days.go(30, 1.0) == []
    for hours, factor in slow:
        assert days.go(hours, factor) == []
        assert days.go(8, 1.0) == []
    assert days.go(60, 1.0) == []


def test_a_job_that_stands_or_is_looked_at_more_often_adds_no_windows(cluster) -> None:
    two = cluster(2, detectors=[decline.Declines()])
    two.go(200)
    (detector,) = two.watch.detectors
    assert 2 <= len(detector._windows["job"].looks) <= 4
    two.running = False
    before = detector._windows["job"].looks
    two.go(200)
    assert len(detector._windows["job"].looks) <= len(before) + 1


def test_an_attempt_that_has_told_no_tokens_yet_forgets_nothing() -> None:
    days = Days()
    days.go(24, 1.0, "token")
    for _ in range(decline.LATELY):
        days.known, _ = decline.judge(days.known, 5.0, "step", days.expected)
        days.go(1, 1.0, "token")
    assert len(days.known.last) == decline.LATELY
    found = days.go(14, 1.2, "token")
    assert [each.kind for each in found] == [Kind.DECLINE]
