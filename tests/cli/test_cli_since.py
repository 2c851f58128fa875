"""How far back, as people write it."""

import pytest

from holdfast.cli.errors import Stopped
from holdfast.cli.since import seconds


@pytest.mark.parametrize(
    ("written", "took_s"),
    [("45m", 2_700), ("12h", 43_200), ("1.5d", 129_600), ("2w", 1_209_600), ("92d", 7_948_800)],
)
def test_a_time_is_a_number_and_a_unit(written: str, took_s: float) -> None:
    assert seconds(written, most_days=92) == took_s


@pytest.mark.parametrize(
    "written", ["", "30", "d", "-1d", "0h", "93d", "14w", "nand", "1 d", "1y", "9" * 400 + "d"]
)
def test_another_one_is_refused_with_how_it_is_written(written: str) -> None:
    with pytest.raises(Stopped, match="--since") as refused:
        seconds(written, most_days=92)
    assert "92d" in refused.value.fix
