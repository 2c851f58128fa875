"""Woken at three: with the printed address alone, on a narrow screen; and what one does then."""

import os
import re
import signal
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.page.axe import violations
from tests.page.conftest import Watched
from tests.page.test_page_browser import heard_of, press_until
from waiting import eventually

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

pytestmark = [pytest.mark.browser, pytest.mark.cluster, pytest.mark.slow]

STANDBYS = 0
SCREEN = 740
MOST_CLICKS = 1


class Looks(NamedTuple):
    """Of somebody who has nothing but the page: what is seen, after how many clicks."""

    page: "Page"
    clicks: list[str]

    def reads(self, found: "Locator", words: str) -> None:
        """It has these words, and is on the screen as it is, without scrolling."""
        found = found.filter(has_text=re.compile(words, re.DOTALL)).first
        found.wait_for()
        box = found.bounding_box()
        assert box is not None, words
        assert 0 <= box["y"] < SCREEN, (words, box)
        assert 0 <= box["x"] < box["x"] + box["width"] <= 360, (words, box)

    def follows(self, link: "Locator") -> None:
        self.reads(link, "")
        self.clicks.append(link.inner_text())
        link.click()

    def answer(self, question: str) -> "Locator":
        """What stands below a heading that is read at a glance."""
        return self.page.locator(".answer", has_text=question)


def test_after_a_fault_that_nobody_announced_all_is_found_from_the_address(
    watched: Watched, context: "BrowserContext"
) -> None:
    pid = eventually(lambda: watched.pid(0), "rank 0 is heard of")
    eventually(lambda: (watched.job()["step"] or 0) > 20, "it trains")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: watched.client.get("/v1alpha1/incidents")["items"], "it is found")
    looks = Looks(context.new_page(), [])
    looks.page.goto(watched.first)
    looks.page.wait_for_url(f"**/jobs/{watched.name}")
    happened = r"at \d\d:\d\d:\d\d UTC: rank 0 on \S+ died of SIGKILL"
    looks.reads(looks.answer("Is it progressing?"), r"Yes: it is at step|again|Not now")
    looks.reads(looks.answer("Why did it last stop?"), happened)
    looks.reads(looks.answer("What was lost?"), r"\d")
    looks.reads(looks.answer("What can be done?"), "Nothing has to be done|Start|holdfast")
    assert looks.clicks == []
    looks.reads(looks.answer("What was lost?"), r"\d s to 1 fault")
    looks.follows(looks.answer("Why did it last stop?").get_by_role("link"))
    looks.page.wait_for_url(re.compile(r"/incidents/\d+$"))
    looks.reads(looks.page.locator(".lead"), "died of SIGKILL")
    looks.reads(looks.page.locator(".facts dt", has_text="since"), "since")
    looks.reads(looks.page.locator(".facts dd"), r"\d\d:\d\d:\d\d UTC")
    looks.reads(looks.page.locator(".facts dt", has_text="lost"), "lost")
    looks.reads(looks.page.locator(".facts dd"), "back at|nothing|redone|repeats")
    looks.reads(looks.page.get_by_role("heading", name="Recovery"), "")
    assert looks.page.locator("[aria-labelledby=recovery] rect").count() >= 2
    assert len(looks.clicks) <= MOST_CLICKS
    print(f"clicks: {looks.clicks}")


def test_the_fault_is_marked_on_the_curves_and_told_beside_them(
    watched: Watched, context: "BrowserContext"
) -> None:
    page = watched.opened(context, f"/jobs/{watched.name}")
    curves = page.locator("[aria-labelledby=curves]")
    curves.locator(".mark").first.wait_for()
    assert curves.locator("svg").count() == 3
    assert curves.get_by_role("link", name=re.compile(r"incident \d+")).count() >= 1
    curves.get_by_text("As a table").click()
    assert "Loss" in curves.locator("thead").inner_text()
    assert curves.locator("tbody tr").count() > 1


def test_stacks_are_taken_in_place_by_the_keyboard_and_read_out(
    watched: Watched, context: "BrowserContext"
) -> None:
    page = watched.opened(context, f"/jobs/{watched.name}")
    console = heard_of(page)
    eventually(lambda: all(watched.pid(rank) for rank in (0, 1)), "both ranks run")
    press_until(page, "Take stacks")
    page.keyboard.press("Enter")
    said = page.locator("#stacks-taken [role=status]")
    said.filter(has_text=re.compile("All show the same stack: 2 ranks|2 different")).wait_for()
    shown = page.locator("#stacks-taken pre")
    assert "train.py" in shown.first.inner_text()
    assert shown.count() in (1, 2)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("form#stacks [name=ranks]").fill("many")
    page.locator("form#stacks button").click()
    said.filter(has_text="write numbers and spans, such as 0-3, 7").wait_for()
    assert console == []


def test_a_picture_offers_the_stack_of_the_rank_that_is_pointed_at(
    watched: Watched, context: "BrowserContext"
) -> None:
    page = watched.opened(context, f"/jobs/{watched.name}")
    figure = page.locator('figure[data-view="view3d"]')
    figure.locator(".view-head", has_text="dp").wait_for()
    button = figure.locator(".view-box button")
    assert not button.is_visible()
    figure.locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    button.filter(has_text=re.compile(r"Stack of rank \d")).wait_for()
    rank = button.inner_text().rpartition(" ")[2]
    button.focus()
    page.keyboard.press("Enter")
    page.locator("#stacks-taken summary", has_text=f"rank {rank}").wait_for()
    assert page.locator("#stacks-taken [role=status]").inner_text() == "The stack of one rank."


def test_the_trace_for_perfetto_is_one_click(watched: Watched, context: "BrowserContext") -> None:
    page = watched.opened(context, f"/jobs/{watched.name}")
    link = page.get_by_role("link", name=re.compile("trace for Perfetto"))

    def kept() -> bool:
        return bool(watched.client.get(f"/v1alpha1/jobs/{watched.name}/spans")["spans"])

    eventually(kept, "spans of it are kept")
    with page.expect_download() as download:
        link.click()
    assert download.value.suggested_filename == f"{watched.name}.pftrace"
    assert download.value.path().stat().st_size > 500


def test_a_fact_is_told_after_its_meaning_was_read(
    watched: Watched, context: "BrowserContext"
) -> None:
    page = watched.opened(context, "/nodes/node-2")
    page.locator("[name=words]").fill("cable replaced")
    assert page.locator("[name=says]:checked").get_attribute("value") == "context", "a note"
    page.locator("[name=says][value=clears]").check()
    page.get_by_role("button", name="Say so").click()
    page.get_by_text("What is held against node-2 counts no more.").wait_for()
    assert violations(page) == []
    page.get_by_role("button", name="Say so").click()
    page.wait_for_url(re.compile(r"/nodes/node-2\?done=\d+$"))
    page.locator(".story", has_text="cable replaced").first.wait_for()
