"""A job's curve: bounded however long the job is, told again by the next driver as it was."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.driver.watch import curve
from holdfast.driver.watch.curve import MOST, Curve, Moment, holes, of


def noted(count: int, every_s: float = 1.0) -> Curve:
    made = Curve(100.0)
    for number in range(count):
        made.note(number * every_s, Moment(number, 1.0 / (number + 1), 0.5, 1_000_000))
    return made


@given(st.integers(min_value=0, max_value=10 * MOST))
def test_a_curve_stays_small_and_reaches_from_the_first_moment_to_the_last(count: int) -> None:
    told = noted(count).stored()
    assert len(told.at_s) <= MOST
    assert {len(getattr(told, name)) for name in curve.FIELDS} == {len(told.at_s)}
    if count:
        assert told.at_s[0] == 0.0
        assert count - 1 - told.at_s[-1] <= told.every_s
    assert told.at_s == sorted(set(told.at_s))
    assert all(step == at for step, at in zip(told.step, told.at_s, strict=True))
    assert not holes(told)


def test_what_is_noted_too_soon_is_left_out() -> None:
    made = noted(3, every_s=0.3)
    assert made.stored().at_s == [0.0]


def test_a_loss_that_is_no_number_is_none() -> None:
    made = Curve(0.0)
    made.note(1.0, Moment(1, math.nan, None, None))
    made.note(2.0, Moment(2, math.inf, 0.1, 5))
    told = made.stored()
    assert (told.loss, told.step_s, told.memory_bytes) == ([None, None], [None, 0.1], [None, 5])


def test_a_curve_goes_on_as_it_was_stored() -> None:
    before = noted(MOST + 40)
    after = of(before.stored())
    assert after.stored() == before.stored()
    after.note(2.0 * MOST, Moment(7, 0.1, 0.5, 1))
    assert len(after.stored().at_s) == len(before.stored().at_s) + 1


def test_a_curve_of_before_there_was_memory_of_gpus_goes_on() -> None:
    before = replace(noted(3).stored(), gpu_memory_bytes=[])
    after = of(before)
    after.note(10.0, Moment(7, 0.1, 0.5, 1, 2))
    assert after.stored().gpu_memory_bytes == [None, None, None, 2]


def test_where_nothing_was_noted_is_told_the_longest_holes_in_order() -> None:
    made = Curve(0.0)
    for at_s in (0.0, 1.0, 20.0, 21.0, 22.0, 122.0):
        made.note(at_s, Moment(1, None, None, None))
    assert holes(made.stored()) == [(1.0, 20.0), (22.0, 122.0)]


def test_columns_of_different_lengths_are_no_curve() -> None:
    told = noted(3).stored()
    with pytest.raises(ValueError, match="not of one length"):
        of(curve.Stored(**{**{n: getattr(told, n) for n in told.__struct_fields__}, "loss": []}))
