"""How the ranks of a finished job ended, as its status tells it."""

from typing import Any

import pytest

from holdfast.cli import status


@pytest.mark.parametrize(
    ("first", "told"),
    [
        pytest.param(
            {"code": 1, "signal": None, "more": 4_095},
            "rank 3 on node-2 with exit code 1, and 4,095 more",
            id="many",
        ),
        pytest.param(
            {"code": None, "signal": 9, "more": 0}, "rank 3 on node-2 by signal 9", id="one-alone"
        ),
    ],
)
def test_the_end_that_explains_the_others_comes_with_their_number(
    first: dict[str, Any], told: str
) -> None:
    assert status._ended({"rank": 3, "node": "node-2", "message": "", **first}) == told
