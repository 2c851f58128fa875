"""What is looked at in the pictures is in the page's address: opened again it shows the same."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.page.test_page_scripts import by_node, needs_node
from waiting import eventually

from holdfast.bench.page import seen, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

RANKS, SLOW = 64, 40
VIEWS = ("heatmap", "timeline", "view3d")

shares = st.floats(0, 1).map(lambda share: round(share, 5)).filter(lambda share: share >= 1e-5)
places = st.tuples(st.integers(1, 64), shares, shares).map(list)
states = st.fixed_dictionaries(
    {},
    optional={
        "view": st.sampled_from(VIEWS),
        "rank": st.integers(0, 999_999_999),
        "at": st.integers(0, 10**9).map(lambda tenths: tenths / 10),
        **dict.fromkeys(VIEWS, places),
    },
)


@needs_node
@settings(max_examples=5, deadline=None)
@given(st.lists(states, min_size=1, max_size=40))
def test_what_is_put_into_an_address_is_read_from_it(given_: list[dict[str, Any]]) -> None:
    does = "given.map((each) => told(`#${textOf(each)}`))"
    assert by_node("address.js", "told, textOf", does, given_) == given_


@needs_node
def test_what_is_not_of_its_form_is_passed_over() -> None:
    wrong = ["", "#", "#log", "#rank=-1", "#rank=x", "#rank=1e3", "#rank=1234567890", "#at=-5"]
    wrong += ["#at=NaN", "#view=<b>", "#view=constructor", "#constructor=1", "#__proto__=1"]
    wrong += ["#heatmap=1,2", "#heatmap=1,2,", "#heatmap=1,-2,3", "#other=3"]
    told = by_node("address.js", "told", "given.map((each) => told(each))", wrong)
    assert told == [{}] * len(wrong)


# ---------------------------------------------------------------- in a browser

browsers = [
    pytest.mark.browser,
    pytest.mark.skipif(seen.browser_path() is None, reason="there is no chromium"),
]


class Looked:
    """A browser, and a page with the pictures of a job."""

    def __init__(self, page: "Page", url: str) -> None:
        self.page, self.url = page, url
        self.said: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))

    def opened(self, address: str = "") -> None:
        """Anew: a page whose address differs after the # alone is not loaded by itself."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/{address}")
        for view in VIEWS:
            seen.drawn(self.page, view)

    @property
    def address(self) -> dict[str, str]:
        return {name: of for name, (of,) in parse_qs(self.fragment).items()}

    @property
    def fragment(self) -> str:
        """Asked of the page: what playwright knows of it is as of its last event."""
        return str(self.page.evaluate("location.hash.slice(1)"))

    def figure(self, view: str) -> Any:
        return self.page.locator(f'figure[data-view="{view}"]')

    def read(self, view: str) -> str:
        return str(self.figure(view).locator(".view-said").inner_text())

    def stage(self, view: str) -> dict[str, Any]:
        script = "async (view) => { const { shown } = await import('/static/views.js');"
        script += 'const { stage } = shown(document.querySelector(`figure[data-view="${view}"]`));'
        script += "const [w, h] = stage.picture.size(); const { zoom, x, y, marked } = stage;"
        script += "return { zoom, x: x / w, y: y / h, marked }; }"
        found: dict[str, Any] = self.page.evaluate(script, view)
        return found

    def moment(self, view: str) -> str:
        return str(self.figure(view).locator("output").inner_text())


@pytest.fixture(scope="module")
def looked() -> Iterator[Looked]:
    pytest.importorskip("playwright")
    answers = served.Answers(RANKS, slow=SLOW, spans=RANKS)
    with (
        served.served(answers) as url,
        seen.opened(viewport={"width": 1280, "height": 900}) as page,
    ):
        yield Looked(page, url)


def in_browser(test: Any) -> Any:
    for mark in browsers:
        test = mark(test)
    return test


@in_browser
def test_a_rank_that_is_chosen_is_in_the_address_and_marked_in_all_pictures(looked: Looked) -> None:
    looked.opened()
    canvas = looked.figure("view3d").locator("canvas")
    canvas.focus()
    canvas.press("ArrowRight")
    canvas.press("Enter")
    eventually(lambda: "rank" in looked.address, "it is chosen")
    rank = looked.address["rank"]
    assert looked.address["view"] == "view3d"
    for view in VIEWS:
        assert looked.stage(view)["marked"] == int(rank)
        assert looked.read(view).startswith(f"Rank {rank} on "), view
    canvas.press("Escape")
    eventually(lambda: "rank" not in looked.address, "it is let go")
    assert looked.said == []


@in_browser
def test_a_page_that_is_opened_by_such_an_address_shows_the_same(looked: Looked) -> None:
    looked.opened("#view=view3d&rank=7&heatmap=2.25,0.25,0.125")
    for view in VIEWS:
        eventually(lambda view=view: looked.read(view).startswith("Rank 7 on "), view)
    assert "Its groups: dp " in looked.figure("view3d").locator(".view-names").inner_text()
    stage = looked.stage("heatmap")
    assert (stage["zoom"], stage["x"], stage["y"]) == pytest.approx((2.25, 0.25, 0.125), abs=1e-3)
    top = "() => document.querySelector('figure[data-view=view3d]').getBoundingClientRect().top"
    eventually(lambda: looked.page.evaluate(top) < 900, "the picture is in sight")
    assert looked.page.evaluate("document.activeElement.closest('figure').dataset.view") == "view3d"
    assert looked.said == []


@in_browser
def test_zoom_and_place_are_in_the_address_and_zero_takes_them_out(looked: Looked) -> None:
    looked.opened()
    canvas = looked.figure("heatmap").locator("canvas")
    canvas.focus()
    for key in ("+", "+", "Shift+ArrowRight"):
        canvas.press(key)
    eventually(lambda: "heatmap" in looked.address, "hands rest")
    before = looked.stage("heatmap")
    assert looked.address["heatmap"].startswith("2.25,")
    looked.opened(f"#{looked.fragment}")
    after = looked.stage("heatmap")
    for name in ("zoom", "x", "y"):
        assert after[name] == pytest.approx(before[name], abs=1e-4), name
    looked.figure("heatmap").locator("canvas").press("0")
    eventually(lambda: "heatmap" not in looked.address, "all is shown")


@in_browser
def test_the_moment_is_one_for_all_pictures_and_the_same_when_opened_again(looked: Looked) -> None:
    looked.opened()
    slider = looked.figure("heatmap").locator('input[type="range"]')
    slider.fill("-5")
    eventually(lambda: "at" in looked.address, "it is in the address")
    for view in VIEWS:
        assert looked.moment(view) == "5 s ago", view
    age_s = looked.page.evaluate(f"fetch('/v1alpha1/jobs/{served.JOB}').then((a) => a.json())")
    assert float(looked.address["at"]) < age_s["age_s"]
    at = looked.address["at"]
    looked.opened(f"#at={at}")
    eventually(lambda: looked.moment("timeline").endswith(" s ago"), "of then")
    slider.fill("0")
    eventually(lambda: "at" not in looked.address, "now")
    assert {looked.moment(view) for view in VIEWS} == {"now"}


@in_browser
def test_back_and_forth_lead_through_what_was_looked_at(looked: Looked) -> None:
    looked.opened()
    canvas = looked.figure("heatmap").locator("canvas")
    canvas.focus()
    canvas.press("Enter")
    canvas.press("ArrowRight")
    canvas.press("Enter")
    first, second = SLOW, SLOW + 1
    eventually(lambda: looked.stage("timeline")["marked"] == second, "the second")
    looked.figure("heatmap").locator('input[type="range"]').fill("-5")
    at = eventually(lambda: looked.address.get("at"), "the past")
    looked.page.go_back()
    eventually(lambda: looked.moment("view3d") == "now", "now again")
    assert looked.stage("view3d")["marked"] == second
    looked.page.go_back()
    eventually(lambda: looked.stage("view3d")["marked"] == first, "the first")
    looked.page.go_forward()
    looked.page.go_forward()
    eventually(lambda: looked.moment("view3d").endswith(" s ago"), "the past again")
    assert looked.address["at"] == at
    assert looked.stage("view3d")["marked"] == second
    assert looked.said == []


@in_browser
def test_a_rank_that_is_not_there_is_said_to_be_none(looked: Looked) -> None:
    looked.opened(f"#rank={RANKS}")
    for view in VIEWS:
        assert looked.read(view) == f"Rank {RANKS} is not shown here"
