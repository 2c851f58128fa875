"""Where ranks are in the heat map, and who is marked: for jobs of any size."""

import copy
import itertools
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.bench.page import made as made_ranks
from holdfast.page.draw import heat, heat_svg, themes
from holdfast.page.draw.svg import Svg

SVG = "{http://www.w3.org/2000/svg}"


@settings(deadline=None, max_examples=60)
@given(
    ranks=st.integers(1, 700),
    each=st.integers(1, 16),
    width=st.integers(1, 900),
)
def test_every_rank_has_one_place_and_no_two_have_the_same(
    ranks: int, each: int, width: int
) -> None:
    found = heat.heat(made_ranks.answer(ranks, each=each), width=float(width))
    assert sorted(cell.row for cell in found.cells) == list(range(ranks))
    assert len({(cell.x, cell.y) for cell in found.cells}) == ranks
    for cell in found.cells:
        assert cell.x % found.size == cell.y % found.size == 0
        assert 0 <= cell.x <= found.width - found.size
        assert 0 <= cell.y <= found.height - found.size
    assert found.size >= 1


@settings(deadline=None, max_examples=30)
@given(ranks=st.integers(8, 400), each=st.integers(1, 8))
def test_ranks_of_a_node_lie_in_one_line(ranks: int, each: int) -> None:
    answer = made_ranks.answer(ranks - ranks % each, each=each)
    found = heat.heat(answer)
    lines: dict[str, set[float]] = {}
    for cell in found.cells:
        lines.setdefault(answer["ranks"][cell.row]["node"], set()).add(cell.y)
    assert all(len(ys) == 1 for ys in lines.values())


def test_racks_are_together_in_the_order_of_their_numbers() -> None:
    answer = made_ranks.answer(96, each=2)
    answer["racks"] = {f"node-{node}": f"rack-{node % 12}" for node in range(48)}
    found = heat.heat(answer)
    racks = [answer["racks"][answer["ranks"][cell.row]["node"]] for cell in found.cells]
    assert list(dict.fromkeys(racks)) == [f"rack-{number}" for number in range(12)]
    assert len([1 for one, other in itertools.pairwise(racks) if one != other]) == 11


@settings(deadline=None, max_examples=25)
@given(data=st.data(), ranks=st.integers(64, 1500))
def test_the_slow_half_per_cent_is_marked_and_nobody_else(data: Any, ranks: int) -> None:
    few = max(1, ranks // 200)
    slow = data.draw(st.sets(st.integers(0, ranks - 1), min_size=few, max_size=few))
    found = heat.heat(made_ranks.answer(ranks, slow=slow, seed=data.draw(st.integers(0, 999))))
    assert {outlier.rank for outlier in found.outliers} == slow
    own = next(column for column in found.columns if column.name == "own")
    assert all(own.shares[rank] == 1.0 for rank in slow)
    usual = [abs(share or 0) for rank, share in enumerate(own.shares) if rank not in slow]
    assert max(usual) < 1.0


def test_ranks_are_compared_with_those_of_their_role() -> None:
    """A stage that has twice as much to do as the others is no outlier."""
    answer = made_ranks.answer(64)
    for row in answer["ranks"]:
        row["role"] = f"pp{row['rank'] // 16}"
        if row["role"] == "pp3":
            row["spent"]["own_s"] *= 2
            row["spent"]["cpu_s"] *= 2
    assert not heat.heat(answer).outliers
    for row in answer["ranks"]:
        del row["role"]
    assert len(heat.heat(answer).outliers) == 16


def test_whom_a_detector_names_is_first_and_has_its_words() -> None:
    answer = made_ranks.answer(128, slow=[3, 90])
    answer["ranks"][40]["verdict"] = "it holds its peers up"
    found = heat.heat(answer).outliers
    assert [(each.rank, each.says) for each in found][:1] == [(40, "it holds its peers up")]
    assert {each.rank for each in found} == {3, 40, 90}
    assert "no detector has said anything of it yet" in found[1].says


def test_a_rank_that_stopped_is_marked_where_the_others_run_though_no_time_is_known() -> None:
    answer = made_ranks.answer(32)
    for row in answer["ranks"]:
        row["spent"] = None
    answer["ranks"][7]["state"] = "stopped"
    found = heat.heat(answer)
    assert [column.name for column in found.columns] == ["still"]
    assert [(each.rank, each.says) for each in found.outliers] == [(7, "it is stopped")]


def test_a_field_of_amounts_says_where_its_colour_ends_and_one_of_distances_does_not() -> None:
    answer = made_ranks.answer(16)
    for row in answer["ranks"]:
        row["spent"]["delayed_s"] = 0.01
    titles = {column.name: column.title for column in heat.heat(answer).columns}
    assert titles["own"] == "own part of a step"
    assert titles["no processor"] == "no processor was free, orange: 325 ms"
    assert titles["still"] == "seconds since it moved, orange: 5 s"
    assert titles["no processor"] in heat_svg.drawn(answer)


@pytest.mark.parametrize("ranks", [1, 7, 512, 513, 12_288])
def test_the_picture_rings_and_names_outliers_at_any_size(ranks: int) -> None:
    answer = made_ranks.answer(ranks)
    answer["ranks"][ranks // 2]["verdict"] = "it is <slow> & it shows"
    root = ElementTree.fromstring(heat_svg.drawn(answer))
    text = " ".join(root.itertext())
    assert f"rank {ranks // 2} on node-{ranks // 2 // 8}" in text
    assert "it is <slow> & it shows" in text.replace("  ", " ")
    columns = heat.heat(answer).columns
    rings = [each for each in root.iter(f"{SVG}circle") if float(each.get("r", 0)) >= 6]
    assert len(rings) == len(columns) + 1  # one is the legend's
    for column in columns:
        assert column.says in text
    if ranks <= heat_svg.TITLED:
        cells = [each for each in root.iter(f"{SVG}rect") if each.get("class") == "cell"]
        assert len(cells) == ranks * len(columns)


def test_who_has_no_room_beside_is_counted() -> None:
    answer = made_ranks.answer(64)
    for rank in range(heat.NAMED + 3):
        answer["ranks"][rank]["verdict"] = "it is slow"
    root = ElementTree.fromstring(heat_svg.drawn(answer))
    said = [str(each.text) for each in root.iter(f"{SVG}text")]
    assert "and 3 more that are ringed" in said
    assert sum(each.startswith("rank ") for each in said) == heat.NAMED


def test_a_ring_is_round_the_cell_of_its_rank() -> None:
    answer = made_ranks.answer(24)
    answer["ranks"][13]["verdict"] = "it is slow"
    root = ElementTree.fromstring(heat_svg.drawn(answer))
    groups = [each for each in root.iter(f"{SVG}g") if each.find(f"{SVG}title") is not None]
    own = [g for g in groups if str(g.findtext(f"{SVG}title")).startswith("rank 13 on")]
    boxes = [[float(box.get(key, 0)) for key in ("x", "y", "width")] for g in own for box in g
             if box.tag == f"{SVG}rect"]  # fmt: skip
    rings = [
        (float(each.get("cx", 0)), float(each.get("cy", 0)))
        for each in root.iter(f"{SVG}circle")
        if float(each.get("r", 0)) > heat_svg.RING
    ]
    assert len(rings) == len(boxes) == len(heat.heat(answer).columns)
    for (cx, cy), (x, y, wide) in zip(rings, boxes, strict=True):
        assert abs(cx - x - wide / 2) <= 1
        assert abs(cy - y - wide / 2) <= 1


RUN = re.compile(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-[\d.]+z")


def test_cells_that_are_drawn_as_runs_are_as_many_as_those_that_differ() -> None:
    """And a rank of which nothing is known has a colour of its own."""
    answer = made_ranks.answer(600, slow=range(0, 600, 7))
    del answer["ranks"][5]["spent"]
    found = heat.heat(answer, width=300)
    (column,) = [each for each in found.columns if each.name == "own"]
    out = Svg(400, 400, themes.LIGHT, title="a", says="a")
    heat_svg._merged(out, column, found, 10.0, 20.0, themes.LIGHT)
    drawn = out.done()
    runs = [tuple(map(float, run)) for run in RUN.findall(drawn)]
    count = sum(heat_svg._level(column, cell) != 0 for cell in found.cells)
    assert sum(wide for _, _, wide, _ in runs) == pytest.approx(count * found.size, rel=1e-3)
    assert all(x + wide <= 10 + found.width + 0.1 for x, _, wide, _ in runs)
    paths = [each.get("fill") for each in ElementTree.fromstring(drawn).iter(f"{SVG}path")]
    assert paths.count(themes.LIGHT.unknown) == 1


def test_the_legend_goes_from_less_to_more() -> None:
    root = ElementTree.fromstring(heat_svg.drawn(made_ranks.answer(8)))
    boxes = [each for each in root.iter(f"{SVG}rect") if each.get("class") == "legend"]
    ordered = sorted(boxes, key=lambda each: float(each.get("x", 0)))
    assert (ordered[0].get("fill"), ordered[-1].get("fill")) == (
        themes.LIGHT.less,
        themes.LIGHT.more,
    )


def test_of_twelve_thousand_ranks_the_picture_is_no_megabyte() -> None:
    picture = heat_svg.drawn(made_ranks.answer(12_288, slow=[9, 5_000]))
    assert len(picture) < 1_000_000


def test_a_name_that_is_markup_stays_text() -> None:
    answer = made_ranks.answer(4)
    answer["job"] = "<script>alert(1)</script>\x1b[31m"
    answer["ranks"][1] |= {"node": "<b>", "verdict": "</text><script>"}
    root = ElementTree.fromstring(heat_svg.drawn(answer))
    assert not list(root.iter(f"{SVG}script"))
    assert "<script>alert(1)</script>" in " ".join(root.itertext())


def test_where_there_are_no_ranks_it_is_said_why() -> None:
    answer = {"job": "a", "ranks": [], "step": 0, "nothing": "a has no ranks now: it is Pending."}
    assert "a has no ranks now" in heat_svg.drawn(answer)


@pytest.mark.parametrize("theme", themes.THEMES.values(), ids=themes.THEMES)
def test_text_can_be_read_and_marks_can_be_seen(theme: themes.Theme) -> None:
    for name in ("text", "quiet", "mark"):
        assert themes.contrast(getattr(theme, name), theme.ground) >= 4.5, name
    for name in ("more", "less", "wait"):
        assert themes.contrast(getattr(theme, name), theme.even) >= 3.0, name
        assert themes.contrast(getattr(theme, name), theme.ground) >= 3.0, name


def test_the_answer_is_not_changed() -> None:
    answer = made_ranks.answer(64, slow=[3])
    before = copy.deepcopy(answer)
    heat_svg.drawn(answer)
    assert answer == before
