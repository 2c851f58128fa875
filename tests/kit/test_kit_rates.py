"""How fast, in words; and where moments have a hole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kit.holes import LONGER, holes
from holdfast.kit.rates import rate


@pytest.mark.parametrize(
    ("bytes_per_s", "said"),
    [
        (0, "0 B/s"),
        (999, "999 B/s"),
        (1_000, "1 kB/s"),
        (12_345_678, "12.3 MB/s"),
        (2.5e9, "2.5 GB/s"),
        (4e12, "4e+03 GB/s"),
    ],
)
def test_a_rate_has_three_digits_and_the_unit_that_fits(bytes_per_s: float, said: str) -> None:
    assert rate(bytes_per_s) == said


@given(st.lists(st.integers(1, 9), max_size=30))
def test_a_hole_is_where_more_than_so_many_moments_are_missing(gaps: list[int]) -> None:
    at_s = [float(sum(gaps[:place])) for place in range(len(gaps) + 1)]
    found = holes(at_s, every_s=1.0)
    assert [after - before for before, after in found] == [gap for gap in gaps if gap > LONGER]
    assert found == sorted(found)
