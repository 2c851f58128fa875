"""A program that ends by its own word, without raising: what it wrote last may be why."""

import pytest

from holdfast.driver.core.faults import root_cause
from holdfast.driver.core.state.node import Exited
from holdfast.protocol.messages import RankError, RankStatus


def said(message: str, *, exception: str = "", code: int = 3) -> str:
    error = RankError(message=message, exception=exception) if message else None
    status = RankStatus(rank=0, state="exited", exit_code=code, error=error)
    return root_cause.summary(Exited(node="n0", status=status))


def test_its_last_line_is_told() -> None:
    assert said("no file config.yaml\n") == (
        "rank 0 on n0 ended with exit code 3, and wrote last: 'no file config.yaml'"
    )


@pytest.mark.parametrize("message", ["", "  \n"])
def test_nothing_is_told_of_who_wrote_nothing(message: str) -> None:
    assert said(message) == "rank 0 on n0 ended with exit code 3"


def test_a_long_line_is_cut_and_what_would_move_a_cursor_is_shown() -> None:
    told = said("\x1b[31mno" + "x" * 4_000)
    assert "\x1b" not in told
    assert told.endswith("xxx...'")
    assert len(told) < 200


def test_an_exception_is_told_alone() -> None:
    assert said("ValueError: x", exception="ValueError") == "rank 0 on n0 raised ValueError: x"
