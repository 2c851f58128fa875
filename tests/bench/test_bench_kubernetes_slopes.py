"""How figures grow from the smallest size to the largest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.bench.figures import Try
from holdfast.bench.kubernetes.sizes import Size
from holdfast.bench.kubernetes.slopes import slopes

SMALL, MIDDLE, LARGE = Size(500, 375, 10), Size(1_000, 750, 10), Size(2_000, 1_500, 10)


def bound(size: Size, value: float | None, *, unit: str = "s") -> Try:
    return Try(system="holdfast", figure=f"bound, {size}", value=value, unit=unit)


@given(st.floats(0.01, 100), st.floats(-1, 3))
def test_what_grows_by_a_power_of_the_nodes_is_told_with_that_power(
    first_s: float, power: float
) -> None:
    measured = {size: [bound(size, first_s * size.nodes**power)] for size in (LARGE, SMALL, MIDDLE)}
    (found,) = slopes(measured)
    assert found.value == pytest.approx(power)
    assert (found.figure, found.unit) == ("growth of bound, 500 to 2000 nodes", "power")


@pytest.mark.parametrize(
    "tries",
    [
        {SMALL: [bound(SMALL, 1.0)]},
        {SMALL: [bound(SMALL, None)], LARGE: [bound(LARGE, 1.0)]},
        {SMALL: [bound(SMALL, 0.0)], LARGE: [bound(LARGE, 1.0)]},
        {size: [bound(size, 1.5, unit="times")] for size in (SMALL, LARGE)},
    ],
    ids=["one size", "not within its time", "nothing", "a ratio"],
)
def test_no_power_is_made_up(tries: dict[Size, list[Try]]) -> None:
    assert list(slopes(tries)) == []
