"""The examples of the interface, and those on its page, are those of the recorded story."""

import pytest

from holdfast.driver.adapters.rest.examples import RECORDED
from holdfast.lab.recorded import __main__ as recorded
from holdfast.lab.recorded.story import Answers, Bodies

FIX = "Run: make examples"


@pytest.fixture(scope="module")
def played() -> tuple[Bodies, Answers]:
    return recorded.record()


def test_the_examples_are_those_of_the_story(played: tuple[Bodies, Answers]) -> None:
    assert RECORDED.read_text() == recorded.as_file(*played), FIX


def test_the_page_shows_the_story(played: tuple[Bodies, Answers]) -> None:
    page = recorded.PAGE.read_text()
    part = recorded.as_part(*played)
    assert part in page, FIX
    assert recorded.page_with(part, page) == page, FIX


def test_a_part_takes_the_place_of_the_one_before_it() -> None:
    page = f"before\n{recorded.BEGIN}old\n{recorded.END}after\n"
    assert recorded.page_with("new\n", page) == "before\nnew\nafter\n"
