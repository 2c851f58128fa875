"""The pictures in a real browser: drawn, moved, pointed at, read out, by hand and by keyboard."""

from collections.abc import Iterator
from typing import Any

import pytest
from waiting import eventually

from holdfast.bench.page import benchmark, seen, served

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(seen.browser_path() is None, reason="there is no chromium"),
]
pytest.importorskip("playwright")

RANKS, SLOW = 12_288, 4_096
LONGEST_FRAME_MS = 8.0


@pytest.fixture(scope="module")
def answers() -> served.Answers:
    return served.Answers(RANKS, slow=SLOW, spans=64)


class Looked:
    """A page, and what its console said."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))

    def figure(self, view: str) -> Any:
        return self.page.locator(f'figure[data-view="{view}"]')

    def canvas(self, view: str) -> Any:
        return self.figure(view).locator("canvas")

    def read(self, view: str) -> str:
        return str(self.figure(view).locator(".view-said").inner_text())

    def state(self, view: str, what: str) -> Any:
        script = "async ([view, what]) => { const { shown } = await import('/static/views.js');"
        script += 'const { stage } = shown(document.querySelector(`figure[data-view="${view}"]`));'
        return self.page.evaluate(f"{script} return stage[what]; }}", [view, what])


@pytest.fixture(scope="module")
def looked(answers: served.Answers) -> Iterator[Looked]:
    with (
        served.served(answers) as url,
        seen.opened(viewport={"width": 1280, "height": 900}) as page,
    ):
        made = Looked(page)
        page.goto(url)
        for view in benchmark.PANNED:
            seen.drawn(page, view)
        yield made


def test_all_pictures_are_drawn_and_the_console_is_silent(looked: Looked) -> None:
    for view in benchmark.PANNED:
        colours = looked.page.evaluate(
            """(view) => {
              const canvas = document.querySelector(`figure[data-view="${view}"] canvas`);
              const { width, height } = canvas;
              const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
              return new Set(new Uint32Array(data.buffer)).size;
            }""",
            view,
        )
        assert colours > 3, view
    assert looked.said == []


def test_who_is_slow_is_named_beside_the_heat_map(looked: Looked) -> None:
    names = looked.figure("heatmap").locator(".view-names").inner_text()
    assert names.startswith(f"rank {SLOW} on node-{SLOW // 8}: holds its peers up")


def test_who_is_slow_is_seen_in_the_heat_map(looked: Looked) -> None:
    """Pixels of the ring's colour are round its place."""
    found = looked.page.evaluate(
        """async () => {
          const { shown } = await import("/static/views.js");
          const view = shown(document.querySelector('figure[data-view="heatmap"]'));
          const { stage, colours } = view;
          const [x, y] = view.placeOf({ row: view.found.outliers[0].row, column: 0 });
          const scale = stage.scale * stage.ratio;
          const [left, top] = [(x - stage.x) * scale - 12, (y - stage.y) * scale - 12];
          const { data } = stage.context.getImageData(left, top, 24, 24);
          let near = 0;
          for (let i = 0; i < data.length; i += 4) {
            near += Math.hypot(...[0, 1, 2].map((c) => data[i + c] - colours.mark[c])) < 60;
          }
          return near;
        }"""
    )
    assert found > 20


def test_the_keyboard_goes_from_rank_to_rank_and_what_is_there_is_read_out(looked: Looked) -> None:
    canvas = looked.canvas("heatmap")
    canvas.focus()
    eventually(lambda: looked.read("heatmap").startswith(f"Rank {SLOW} on "), "it begins there")
    canvas.press("ArrowRight")
    eventually(lambda: looked.read("heatmap").startswith(f"Rank {SLOW + 1} on "), "the next rank")
    assert "own part of a step" in looked.read("heatmap")
    assert looked.figure("heatmap").locator('[aria-live="polite"]').count() == 1
    canvas.press("+")
    canvas.press("+")
    assert looked.state("heatmap", "zoom") == pytest.approx(2.25)
    before = looked.state("heatmap", "x")
    canvas.press("Shift+ArrowLeft")
    eventually(lambda: looked.state("heatmap", "x") != before, "it moves")
    canvas.press("0")
    assert looked.state("heatmap", "zoom") == 1


def test_a_mouse_zooms_moves_and_points(looked: Looked) -> None:
    canvas = looked.canvas("heatmap")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    mouse = looked.page.mouse
    mouse.move(box["x"] + 60, box["y"] + 60)
    eventually(lambda: looked.read("heatmap").startswith("Rank "), "it says what is there")
    canvas.focus()
    mouse.wheel(0, -400)
    eventually(lambda: looked.state("heatmap", "zoom") > 1.5, "it is zoomed")
    before = looked.state("heatmap", "x")
    mouse.down()
    mouse.move(box["x"] + 20, box["y"] + 40, steps=4)
    mouse.up()
    eventually(lambda: looked.state("heatmap", "x") > before, "it follows the hand")
    canvas.dblclick()
    eventually(lambda: looked.state("heatmap", "zoom") == 1, "a double click shows all")
    canvas.press("Escape")  # lets go of the rank that the clicks have chosen


def test_a_rank_that_is_chosen_shows_its_groups_and_whom_it_waits_for(looked: Looked) -> None:
    canvas = looked.canvas("view3d")
    canvas.focus()
    eventually(lambda: looked.read("view3d").startswith(f"Rank {SLOW} on "), "where waits end")
    canvas.press("ArrowRight")
    canvas.press("Enter")
    said = looked.figure("view3d").locator(".view-names li").first.inner_text()
    assert "waits for rank" in said
    assert "Its groups: dp " in said
    canvas.press("Escape")


def test_the_timeline_says_who_is_waited_for_and_what_each_span_was(looked: Looked) -> None:
    head = looked.figure("timeline").locator(".view-head").inner_text()
    assert "rank 0 on node-0 has done nothing since 12.0 s; 63 ranks wait in all_reduce" in head
    canvas = looked.canvas("timeline")
    canvas.focus()
    canvas.press("ArrowRight")
    eventually(lambda: ", step " in looked.read("timeline"), "it is read out")


def test_a_table_has_what_is_drawn_for_who_cannot_see_it(looked: Looked) -> None:
    figure = looked.figure("heatmap")
    figure.locator("summary").click()
    eventually(lambda: figure.locator("tbody tr").count() == 100, "rows")
    first = figure.locator("tbody tr").first.inner_text()
    assert first.split()[:2] == [str(SLOW), f"node-{SLOW // 8}"]
    figure.locator("summary").click()


def test_the_past_is_made_of_traces(looked: Looked) -> None:
    figure = looked.figure("heatmap")
    figure.locator('input[type="range"]').fill("-5")
    eventually(lambda: "64 ranks" in figure.locator(".view-head").inner_text(), "of then")
    assert figure.locator("output").inner_text() == "5 s ago"
    figure.locator('input[type="range"]').fill("0")
    eventually(lambda: "12,288 ranks" in figure.locator(".view-head").inner_text(), "of now")


def test_a_page_that_nobody_sees_asks_for_nothing(looked: Looked, answers: served.Answers) -> None:
    path = f"/v1alpha1/jobs/{served.JOB}/ranks"
    hide = """(hidden) => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    looked.page.evaluate(hide, True)
    looked.page.wait_for_timeout(1500)
    before = answers.asked[path]
    looked.page.wait_for_timeout(2500)
    assert answers.asked[path] == before
    looked.page.evaluate(hide, False)
    eventually(lambda: answers.asked[path] > before, "it asks again")


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_dark_and_light_follow_the_reader(looked: Looked, scheme: str) -> None:
    from holdfast.page.draw import themes

    looked.page.emulate_media(color_scheme=scheme)
    wanted = list(themes.channels(themes.THEMES[scheme].ground))

    def ground() -> list[int]:
        script = "() => [...document.querySelector('canvas').getContext('2d')"
        found: list[int] = looked.page.evaluate(f"{script}.getImageData(2, 2, 1, 1).data]")
        return found[:3]

    eventually(lambda: ground() == wanted, "the ground has changed")


def test_a_frame_of_a_drag_takes_eight_milliseconds_at_most(looked: Looked) -> None:
    """The script that draws: what is painted besides is measured by `holdfast bench page`."""
    for view in benchmark.PANNED:
        assert seen.panned(looked.page, view).median_ms < LONGEST_FRAME_MS, view


def test_it_fits_a_telephone(looked: Looked) -> None:
    looked.page.set_viewport_size({"width": 360, "height": 740})
    wide = "() => document.documentElement.scrollWidth"
    eventually(lambda: looked.page.evaluate(wide) <= 360, "nothing is wider than the screen")
    looked.page.set_viewport_size({"width": 1280, "height": 900})
