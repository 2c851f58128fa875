"""The report of a test that failed tells what its driver decided, whatever there is of it."""

from pathlib import Path

import pytest
from shipped_driver import decided_in


@pytest.mark.parametrize("begun", [False, True], ids=["no file", "no table"])
def test_a_driver_that_has_written_nothing_down_does_not_end_the_report(
    tmp_path: Path, begun: bool
) -> None:
    if begun:
        (tmp_path / "driver").mkdir()
        (tmp_path / "driver" / "journal.sqlite").touch()
    assert "journal: " in decided_in(tmp_path)
