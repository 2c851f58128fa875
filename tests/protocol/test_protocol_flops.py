"""How much of its devices a job uses, and what is said where that is not known."""

import pytest

from holdfast.protocol.flops import per_token, utilization


def test_flops_are_those_of_palm() -> None:
    found = per_token(1e9, layers=10, heads=8, head_size=64, sequence=1000)
    assert found == 6e9 + 12 * 10 * 8 * 64 * 1000


def test_a_part_of_the_peak_of_all_ranks() -> None:
    assert utilization(1e5, 1e10, 500, 4) == (pytest.approx(0.5), "")


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ((1e5, 0, 500, 4), "flopsPerToken"),
        ((1e5, 1e10, 0, 4), "peakTflops"),
        ((1e5, 1e10, 500, 0), "no ranks"),
        ((None, 1e10, 500, 4), "tokens"),
    ],
)
def test_nothing_is_guessed(told: tuple[float | None, float, float, int], why: str) -> None:
    used, unknown = utilization(*told)
    assert used is None
    assert why in unknown
