"""Where moments have a hole."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kit.holes import LONGER, holes


@given(st.lists(st.integers(1, 9), max_size=30))
def test_a_hole_is_where_more_than_so_many_moments_are_missing(gaps: list[int]) -> None:
    at_s = [float(sum(gaps[:place])) for place in range(len(gaps) + 1)]
    found = holes(at_s, every_s=1.0)
    assert [after - before for before, after in found] == [gap for gap in gaps if gap > LONGER]
    assert found == sorted(found)
