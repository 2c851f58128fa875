"""The page's modules make the same layouts as page/draw does of the same answers: run by node."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.bench.page import made as made_ranks
from holdfast.page.draw import busy, grid, heat, moments, themes, timeline
from holdfast.page.render import VIEW_MODULES

STATIC = Path(__file__).parents[2] / "page" / "static"
NODE = shutil.which("node")
SCRIPT = """
import {{ {names} }} from "{module}";
let said = "";
for await (const part of process.stdin) said += part;
const given = JSON.parse(said);
process.stdout.write(JSON.stringify({does}, (_, value) => {{
  if (value instanceof Map) return Object.fromEntries(value);
  return ArrayBuffer.isView(value) ? [...value] : value;
}}));
"""

needs_node = pytest.mark.skipif(NODE is None, reason="there is no node")


def by_node(module: str, names: str, does: str, given: Any) -> Any:
    """What a module of the page makes of it."""
    assert NODE is not None
    url = (STATIC / "views" / module).as_uri()
    script = SCRIPT.format(names=names, module=url, does=does)
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", script],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


FOLLOWED = """
await (async () => {
  const later = globalThis.setTimeout;
  globalThis.setTimeout = (look) => later(look, 0);
  globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };
  const [asked, told, over] = [[], [], new AbortController()];
  await new Promise((done) => {
    globalThis.fetch = async (_, { headers: sent }) => {
      asked.push(sent["If-None-Match"] ?? "");
      const answer = given[asked.length - 1];
      if (!answer) return done(), new Promise(() => {});
      const { status, tag, says } = answer;
      const headers = new Map([["ETag", tag]]);
      return { ok: status === 200, status, headers, json: async () => says };
    };
    follow("/a", (answer, error) => told.push(answer ?? error.message), over.signal);
  });
  over.abort();
  return { asked, told };
})()
"""


@needs_node
def test_what_was_seen_is_not_sent_again_and_after_a_failure_all_is() -> None:
    answers = [
        {"status": 200, "tag": "a", "says": {"step": 1}},
        {"status": 304},
        {"status": 500, "says": {}},
        {"status": 200, "tag": "b", "says": {"step": 2}},
        {"status": 304},
    ]
    found = by_node("feed.js", "follow", FOLLOWED, answers)
    assert found["asked"] == ["", "a", "a", "", "b", "b"]
    assert found["told"] == [{"step": 1}, "the driver answered 500", {"step": 2}]


def tried(ranks: int, each: int, racks: int) -> dict[str, Any]:
    answer = made_ranks.answer(ranks, each=each, slow=[ranks // 3])
    answer["racks"] = {node: f"r{at % racks}" for at, node in enumerate(answer["racks"])}
    answer["ranks"][ranks // 2]["verdict"] = "it holds its peers up"
    answer["ranks"][0]["spent"] = None
    answer["ranks"][-1] |= {"state": "stopped", "still_s": 9.0}
    for row in answer["ranks"][1::3]:
        row["role"] = "pp1"
        row["spent"]["delayed_s"] = 0.01 * row["rank"]
    return answer


@needs_node
@pytest.mark.parametrize(
    ("ranks", "each", "racks"),
    [(3, 1, 1), (24, 2, 3), (100, 8, 11), (864, 12, 12), (12_288, 8, 96)],
)
def test_the_heat_map_is_laid_out_alike(ranks: int, each: int, racks: int) -> None:
    answer = tried(ranks, each, racks)
    mine, its = heat.heat(answer), by_node("heat.js", "heat", "heat(given)", answer)
    assert (its["size"], its["width"], its["height"]) == (mine.size, mine.width, mine.height)
    assert [(cell.x, cell.y) for cell in sorted(mine.cells)] == list(
        zip(its["x"], its["y"], strict=True)
    )
    assert [column["name"] for column in its["columns"]] == [each.name for each in mine.columns]
    for one, other in zip(mine.columns, its["columns"], strict=True):
        assert (other["says"], other["title"]) == (one.says, one.title)
        known = [share for share in one.shares if share is not None]
        assert [share for share in other["shares"] if share is not None] == pytest.approx(known)
    told = [(outlier.rank, outlier.says) for outlier in mine.outliers]
    assert [(each["rank"], each["says"]) for each in its["outliers"]] == told
    assert its["window_s"] == mine.window_s


@needs_node
@pytest.mark.parametrize("shape", [(1, 1, 1), (4, 4, 2), (70, 2, 3), (192, 8, 8)])
def test_the_3d_view_is_laid_out_alike(shape: tuple[int, int, int]) -> None:
    answer = made_ranks.view3d(*shape, stopped=shape[0] // 2)
    mine, its = grid.grid(answer), by_node("grid.js", "gridOf", "gridOf(given)", answer)
    assert its["x"] == pytest.approx([spot.x for spot in mine.spots])
    assert its["y"] == pytest.approx([spot.y for spot in mine.spots])
    assert (its["cell"], its["height"]) == pytest.approx((mine.cell, mine.height))
    arrows = [(each.waiting, each.target, each.x1, each.y1) for each in mine.arrows]
    found = [(each["count"], each["target"], each["x1"], each["y1"]) for each in its["arrows"]]
    assert [each[:2] for each in found] == [each[:2] for each in arrows]
    for one, other in zip(found, arrows, strict=True):
        assert one[2:] == pytest.approx(other[2:])


@needs_node
def test_groups_and_chains_are_alike() -> None:
    answer = made_ranks.view3d(4, 4, 2, stopped=13)
    for rank in (0, 3, 12, 13, 31):
        mine = grid.chosen(answer, rank)
        its = by_node("grid.js", "chosenOf", f"chosenOf(given, {rank})", answer)
        assert its["chain"] == list(mine.chain)
        assert its["groups"] == {axis: list(ranks) for axis, ranks in mine.groups.items()}


@needs_node
@pytest.mark.parametrize(("ranks", "stopped"), [(8, 5), (8, None), (1_000, 321)])
def test_the_timeline_has_the_same_lines_and_says_the_same(ranks: int, stopped: int | None) -> None:
    answer = made_ranks.spans(ranks, steps=4, stopped=stopped, at_s=2.0)
    mine = timeline.timeline(answer)
    its = by_node("spans.js", "timelineOf", "timelineOf(given)", answer)
    assert its["lines"] == [line.rank for line in mine.lines]
    assert (its["awaited"], its["says"]) == (list(mine.awaited), mine.says)
    assert its["leftOut"] == mine.left_out
    for line, told in zip(mine.lines, its["segments"], strict=True):
        spans = [each for each in answer["spans"] if each["rank"] == line.rank]
        found = busy.segments(spans)
        assert [(each["kind"], each["span"]) for each in told] == [
            (each.kind, each.span) for each in found
        ]
        assert [each["beginS"] for each in told] == pytest.approx([each.begin_s for each in found])
    shares = by_node(
        "spans.js", "timelineOf, sharesOf", "sharesOf(timelineOf(given), 1.5)[0]", answer
    )
    first = [each for each in answer["spans"] if each["rank"] == mine.lines[0].rank]
    pieces = busy.pieces(busy.segments(first), mine.from_s, mine.to_s, 1.5)
    for one, other in zip(shares, pieces, strict=True):
        assert one["shares"] == pytest.approx(other.shares)


@needs_node
def test_the_axis_of_what_is_waited_in_is_said_alike() -> None:
    answer = made_ranks.spans(8, steps=4, stopped=5, at_s=2.0)
    for span in answer["spans"]:
        if span["kind"] == "collective":
            span |= {"number": span["step"] + 1, "axis": "dp"}
    held = next(each for each in answer["spans"] if not each.get("ended", True))
    place = f"all_reduce #{held['number']}"
    rows = [
        {"rank": rank, "node": "node-1", "state": "waits", "waits_in": f"{place} of [0, 1]"}
        for rank in range(8)
        if rank != 5
    ]
    for ranks in (None, {"ranks": rows}):
        mine = timeline.timeline(answer, ranks).says
        assert mine.endswith(f"wait in {place} (dp)")
        both = {"spans": answer, "ranks": ranks}
        its = by_node("spans.js", "timelineOf", "timelineOf(given.spans, given.ranks).says", both)
        assert its == mine


@needs_node
def test_the_past_is_made_of_spans_alike() -> None:
    for stopped in (None, 3):
        answer = made_ranks.spans(8, stopped=stopped)
        for span in answer["spans"]:
            if span["kind"] == "collective":
                span |= {"group": 7 + span["rank"] // 4, "number": span["step"] + 1}
                span |= {"axis": "tp"} if span["rank"] < 4 else {}
        if stopped:
            held = {"kind": "pause", "name": "stopped", "took_s": 8.0, "ended": False}
            answer["spans"].append({**answer["spans"][0], "rank": 5, "start_s": 12.5, **held})
        mine = moments.ranks_of(answer)
        its = by_node("moments.js", "ranksOf", "ranksOf(given)", answer)
        for each in ("step", "waits", "ends", "why"):
            assert its[each] == mine[each]
        for one, other in zip(its["ranks"], mine["ranks"], strict=True):
            its_spent, my_spent = one.pop("spent", {}), other.pop("spent", {})
            assert its_spent.pop("wall_s", {}) == pytest.approx(my_spent.pop("wall_s", {}))
            assert its_spent == pytest.approx(my_spent)
            assert (one.pop("still_s"), one) == (pytest.approx(other.pop("still_s")), other)


def test_the_style_sheet_has_the_same_colours() -> None:
    css = (STATIC / "views.css").read_text()
    light, dark = css.split("@media (prefers-color-scheme: dark)")[:2]
    for part, theme in ((light, themes.LIGHT), (dark, themes.DARK)):
        its = dict(re.findall(r"--view-([\w]+): (#[0-9a-f]{6})", part))
        mine = {
            name: getattr(theme, name) for name in theme._fields if name not in ("name", "kinds")
        }
        assert its == mine | theme.kinds


def test_nothing_is_loaded_from_elsewhere_and_nothing_becomes_markup() -> None:
    for path in (STATIC / "views.js", *(STATIC / "views").glob("*.js")):
        text = path.read_text()
        assert not re.search(
            r"innerHTML|insertAdjacentHTML|document\.write|eval\(|https?:", text
        ), path
        assert all(each.startswith(".") for each in re.findall(r'from "([^"]+)"', text)), path


def test_a_page_names_all_modules_of_its_pictures_at_once() -> None:
    """One that lacks here is found by the browser only when another one asks for it."""
    there = {each.stem for each in (STATIC / "views").glob("*.js")}
    assert set(VIEW_MODULES) == there - {"worker"}
