"""Whom a hold is for: pure."""

from typing import Any

import pytest

from holdfast.driver.adapters.kubernetes.placing import Hold, wanted

HOLD = Hold("job", "uid-1", 0)


@pytest.mark.parametrize(
    ("metadata", "to_run"),
    [
        ({"uid": "uid-1"}, True),
        ({"uid": "uid-1", "deletionTimestamp": "2026-01-01T00:00:00Z"}, False),
        ({"uid": "uid-2"}, False),
        (None, False),
    ],
)
def test_a_job_is_to_run_while_the_very_object_that_it_was_made_of_is_there_to_stay(
    metadata: dict[str, Any] | None, to_run: bool
) -> None:
    owner = None if metadata is None else {"metadata": metadata}
    assert wanted(HOLD, owner) is to_run
