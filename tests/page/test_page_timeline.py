"""What each rank did when: lines, bars, and the rank at which the others wait."""

import itertools
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.bench.page import made as made_ranks
from holdfast.page.draw import heat, moments, timeline, timeline_svg

SVG = "{http://www.w3.org/2000/svg}"


@settings(deadline=None, max_examples=40)
@given(ranks=st.integers(1, 900), stopped=st.integers(0, 899), width=st.integers(50, 2000))
def test_a_line_a_rank_and_the_one_that_stopped_always_has_one(
    ranks: int, stopped: int, width: int
) -> None:
    stopped = stopped % ranks
    answer = made_ranks.spans(ranks, steps=4, stopped=stopped, at_s=2.0)
    found = timeline.timeline(answer, width=float(width))
    lines = [line.rank for line in found.lines]
    assert lines == sorted(set(lines))
    assert len(lines) <= timeline.MOST_LINES
    assert len(lines) == ranks or len(lines) > timeline.MOST_LINES // 4
    assert len(lines) + found.left_out == ranks
    ys = [line.y for line in found.lines]
    assert all(b - a >= found.line_height - 1e-6 for a, b in itertools.pairwise(ys))
    for bar in found.bars:
        assert 0 <= bar.x <= bar.x + bar.width <= width + 1e-6
        assert 0 <= bar.wait <= bar.width + 1e-6
        assert bar.height <= found.line_height
    if ranks > 1:
        assert found.awaited == (stopped,)
        assert stopped in lines


def test_where_everybody_waits_is_hatched_until_the_end() -> None:
    answer = made_ranks.spans(8, stopped=5, at_s=12.0)
    root = ElementTree.fromstring(timeline_svg.drawn(answer))
    wide = [
        each
        for each in root.iter(f"{SVG}rect")
        if each.get("fill") == "url(#wait)" and float(each.get("width", 0)) > 100
    ]
    assert len(wide) == 7
    text = " ".join(root.itertext())
    assert "7 ranks wait for rank 5 on node-0, which has done nothing for 8.0 s" in text


def test_a_wait_that_has_no_span_yet_is_drawn_from_what_ranks_say_now() -> None:
    answer = made_ranks.spans(4, steps=5)
    rows: list[dict[str, Any]] = made_ranks.answer(4)["ranks"]
    for row in rows:
        waits = {"state": "waits", "still_s": 3.0, "waits_on": [2], "waits_on_count": 1}
        row |= waits if row["rank"] != 2 else {"state": "stopped"}
    answer["to_s"] = 8.0
    found = timeline.timeline(answer, {"ranks": rows}, width=800.0)
    assert found.awaited == (2,)
    opened = [bar for bar in found.bars if bar.open]
    assert [bar.rank for bar in opened] == [0, 1, 3]
    assert all((bar.x, bar.width, bar.wait) == pytest.approx((500, 300, 300)) for bar in opened)


def test_a_job_that_goes_has_nobody_to_wait_for() -> None:
    assert timeline.timeline(made_ranks.spans(8)).awaited == ()


def test_what_is_left_out_and_dropped_and_how_sure_clocks_are_is_said() -> None:
    answer = made_ranks.spans(1000, steps=2) | {"dropped": 7}
    said = timeline_svg.drawn(answer)
    assert "750 ranks are left out" in said
    assert "7 spans were dropped" in said
    assert "clocks of nodes agree within 0.4 ms" in said


def test_where_nothing_was_traced_it_is_said() -> None:
    answer = made_ranks.spans(0)
    assert "no spans are kept of that time" in timeline_svg.drawn(answer)


def test_spans_of_the_past_make_a_heat_map() -> None:
    answer = made_ranks.spans(64)
    late = [span for span in answer["spans"] if span["rank"] == 9]
    for span in late:
        if span["kind"] == "collective":
            span |= {"took_s": 0.1, "waited_s": 0.0}
        elif span["kind"] == "backward":
            span["took_s"] = 0.9
        elif span["kind"] == "step":
            span["took_s"] = 1.3
    rows = moments.ranks_of(answer)
    assert rows["ranks"][0]["spent"]["waits_s"] == pytest.approx(0.1)
    found = heat.heat(rows)
    assert [each.rank for each in found.outliers] == [9]
    assert {"own", "backward", "forward", "collective"} <= {each.name for each in found.columns}


def test_who_waited_at_a_moment_of_the_past_is_known() -> None:
    rows = moments.ranks_of(made_ranks.spans(4, stopped=1, at_s=12.0))["ranks"]
    assert [row["state"] for row in rows] == ["waits", "still", "waits", "waits"]
    assert rows[1]["still_s"] == pytest.approx(8.0)
