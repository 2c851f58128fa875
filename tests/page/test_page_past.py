"""The last seconds of a job that is over, out of its traces."""

from pathlib import Path

import pytest
from made_spans import made

from holdfast.driver.adapters.page import past
from holdfast.driver.adapters.page.past import last_of

END_S = 8.01
"""Of the made-up job: rank 3 is stopped from 3.01 s on, for five seconds."""


def test_the_last_seconds_are_found_however_long_ago_they_were(tmp_path: Path) -> None:
    made(tmp_path)
    found = last_of(tmp_path, "speech", age_s=900.0, last_s=2.0)
    assert (found.from_s, found.to_s) == (pytest.approx(END_S - 2.0), pytest.approx(END_S))
    assert {span.rank for span in found.found.spans} == {0, 1, 2, 3}


def test_of_more_than_can_be_shown_the_last_are_and_it_is_told_since_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path)
    whole = last_of(tmp_path, "speech", age_s=10.0, last_s=10.0)
    monkeypatch.setattr(past, "MOST_SPANS", 50)
    some = last_of(tmp_path, "speech", age_s=10.0, last_s=10.0)
    assert some.found.spans == whole.found.spans[-50:]
    assert (some.to_s, some.from_s) == (whole.to_s, some.found.spans[0].start_s)
    assert some.from_s > whole.from_s
