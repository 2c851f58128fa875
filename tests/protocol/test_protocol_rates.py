"""How fast bytes move, in words."""

import pytest

from holdfast.protocol.counts import rate


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
