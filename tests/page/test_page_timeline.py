"""What each rank did when: lines, bars, and the rank at which the others wait."""

import itertools
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.bench.page import made as made_ranks
from holdfast.page import ended
from holdfast.page.draw import busy, grid_svg, heat, moments, svg, timeline, timeline_svg
from holdfast.protocol.topology import Topology

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
        assert 0 <= bar.height <= found.line_height
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
    waiting = "ranks 0, 1, 2, 3, 4, 6, 7 wait in all_reduce"
    assert f"rank 5 on node-0 has done nothing since 12.0 s; {waiting}" in text


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
    assert {bar.kind for bar in opened} == {"waits"}
    assert all((bar.x, bar.width) == pytest.approx((500, 300)) for bar in opened)
    assert found.says == "rank 2 on node-0 has done nothing since 5.0 s; ranks 0, 1, 3 wait"


def test_a_wait_and_a_stop_that_are_under_way_go_on_until_now() -> None:
    answer = made_ranks.spans(4, steps=5)
    for rank in range(4):
        name, kind = ("stopped", "pause") if rank == 2 else ("all_reduce", "collective")
        waited_s = 0.0 if rank == 2 else 1.0
        more = {"name": name, "took_s": 1.0, "waited_s": waited_s, "ended": False, "number": 311}
        answer["spans"].append(made_ranks._span(rank, 6, kind, 5.0, **more))
    rows: list[dict[str, Any]] = made_ranks.answer(4)["ranks"]
    for row in rows:
        row |= {"state": "stopped" if row["rank"] == 2 else "waits", "still_s": 3.0}
    answer["to_s"] = 8.0
    found = timeline.timeline(answer, {"ranks": rows}, width=800.0)
    assert [(bar.rank, bar.kind) for bar in found.bars if bar.open] == [
        (0, "waits"),
        (1, "waits"),
        (2, "stopped"),
        (3, "waits"),
    ]
    assert all(bar.x + bar.width == pytest.approx(800) for bar in found.bars if bar.open)
    assert found.says == (
        "rank 2 on node-0 has done nothing since 5.0 s; ranks 0, 1, 3 wait in all_reduce #311"
    )
    picture = timeline_svg.drawn(answer, {"ranks": rows})
    assert 'class="bar stopped"' in picture


def test_steps_that_are_too_short_to_be_seen_are_drawn_as_shares_of_time() -> None:
    """What is short has no more room than its time: a pixel each would look like the most."""
    answer = made_ranks.spans(2, steps=2_000, step_s=0.05)
    for span in answer["spans"]:
        if span["kind"] == "collective" and span["rank"] == 0:
            span |= {"waited_s": 0.0}
    found = timeline.timeline(answer, width=1_000.0)
    area: dict[tuple[int, str], float] = {}
    for bar in found.bars:
        key = (bar.rank, bar.kind)
        area[key] = area.get(key, 0.0) + bar.width * bar.height
    whole = sum(value for (rank, _), value in area.items() if rank == 1)
    shares = {
        kind: value / whole
        for (rank, kind), value in area.items()
        if value > 1e-6 * whole and rank == 1
    }
    usual = {"forward": 0.3, "backward": 0.5, "collective": 0.1, "waits": 0.1}
    assert shares == pytest.approx(usual, abs=0.01)
    assert (0, "waits") not in area
    assert not found.lines[0].steps


def test_a_span_within_another_is_what_a_rank_is_at() -> None:
    spans = [
        {"rank": 0, "kind": "step", "start_s": 0.0, "took_s": 10.0, "waited_s": 4.0},
        {"rank": 0, "kind": "backward", "start_s": 2.0, "took_s": 6.0, "waited_s": 4.0},
        {"rank": 0, "kind": "collective", "start_s": 3.0, "took_s": 2.0, "waited_s": 1.5},
    ]
    told = [(each.kind, each.begin_s, each.end_s) for each in busy.segments(spans)]
    assert told == [
        ("step", 0.0, 2.0),
        ("backward", 2.0, 3.0),
        ("waits", 3.0, 4.5),
        ("collective", 4.5, 5.0),
        ("backward", 5.0, 5.5),
        ("waits", 5.5, 8.0),
        ("step", 8.0, 10.0),
    ]


@given(data=st.data())
def test_segments_never_overlap_and_pieces_have_all_of_their_time(data: Any) -> None:
    times = st.floats(0, 20, allow_nan=False)
    spans = [
        {"rank": 0, "kind": kind, "start_s": start, "took_s": took, "waited_s": share * took}
        for kind, start, took, share in data.draw(
            st.lists(
                st.tuples(
                    st.sampled_from(["step", "collective", "backward"]),
                    times,
                    times,
                    st.floats(0, 1),
                ),
                max_size=12,
            )
        )
    ]
    found = busy.segments(spans)
    assert all(one.end_s <= other.begin_s + 1e-9 for one, other in itertools.pairwise(found))
    piece_s = data.draw(st.floats(0.3, 5))
    told = sum(sum(each.shares.values()) for each in busy.pieces(found, 0.0, 40.0, piece_s))
    whole = sum(each.end_s - each.begin_s for each in found)
    assert told * piece_s == pytest.approx(whole, abs=1e-5)


def test_who_stood_in_an_attempt_that_was_ended_is_not_said_to_stand() -> None:
    answer = made_ranks.spans(4, stopped=2, at_s=12.0)
    for rank in range(4):
        answer["spans"].append(made_ranks._span(rank, 0, "step", 19.0, took_s=1.0, attempt=2))
    assert timeline.timeline(answer).says == ""


def test_a_rank_that_runs_is_not_said_to_stand_because_its_node_sends_later() -> None:
    answer = made_ranks.spans(4)
    answer["spans"] = [each for each in answer["spans"] if each["rank"] < 2 or each["step"] < 18]
    rows = {"ranks": made_ranks.answer(4)["ranks"]}
    assert timeline.timeline(answer, rows).says == ""
    assert timeline.timeline(answer).awaited == (2, 3)


def test_a_job_that_goes_has_nobody_to_wait_for() -> None:
    assert timeline.timeline(made_ranks.spans(8)).awaited == ()


def test_what_is_left_out_and_dropped_and_how_sure_clocks_are_is_said() -> None:
    answer = made_ranks.spans(1000, steps=2) | {"dropped": 7}
    said = timeline_svg.drawn(answer)
    assert "750 ranks are left out" in said
    assert "7 spans were dropped" in said
    assert "clocks of nodes agree within 0.4 ms" in said
    answer["clock_error_s"] = {"node-0": 0.0004, "node-1": 0.003, "node-2": 0.001}
    assert "clocks of nodes agree within 3 ms" in timeline_svg.drawn(answer)


def test_the_axis_has_the_time_that_is_drawn_and_bars_are_beside_their_names() -> None:
    answer = made_ranks.spans(256, steps=20, stopped=200)
    answer["from_s"] = 10.0
    root = ElementTree.fromstring(timeline_svg.drawn(answer))
    texts = {each.text: each for each in root.iter(f"{SVG}text")}
    left = timeline_svg.MARGIN + timeline_svg.NAMES
    assert float(texts["10.0 s"].get("x", 0)) == left
    assert float(texts["20.0 s"].get("x", 0)) > 1_000
    assert "0.0 s" not in texts
    bars = [each for each in root.iter(f"{SVG}rect") if "bar" in str(each.get("class"))]
    assert min(float(each.get("x", 0)) for each in bars) >= left
    assert "rank 200 node-25" in texts, "though lines are too thin for the others' names"
    assert "rank 199 node-24" not in texts


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


def test_for_whom_everybody_waited_at_a_moment_of_the_past_is_known() -> None:
    answer = made_ranks.spans(8, stopped=1, at_s=12.0)
    for span in answer["spans"]:
        if span["kind"] == "collective":
            span |= {"group": 7 if span["rank"] < 4 else 8, "number": span["step"] + 1}
            span |= {"axis": "dp"} if span["rank"] < 4 else {}
    rows = moments.ranks_of(answer)
    first, other = rows["waits"]
    assert first == {"where": "all_reduce #13 (dp)", "waiting": [0, 2, 3], "lacking": [1]}
    assert other["where"] == "all_reduce #13"
    assert (other["waiting"], other["lacking"]) == ([4, 5, 6, 7], [])
    assert (rows["ends"], rows["why"]) == ([1], ["by traces the waits of 7 ranks end at rank 1"])
    drawn = grid_svg.drawn(moments.grid_of(rows, Topology(dp=8), 8))
    assert 'class="arrow"' in drawn
    assert "end at rank 1" in drawn
    job = {"ranks": 8, "layout": {"dp": 8, "pp": 1, "tp": 1}, "spec": {}}
    said = ended.of({**answer, "troubles": []}, {**answer, "troubles": []}, job).shown[2].says
    assert said[1:] == [
        "Ranks 4-7 wait in all_reduce #13 for nobody known.",
        "Ranks 0, 2-3 wait in all_reduce #13 (dp) for rank 1.",
    ]
    goes = moments.ranks_of(made_ranks.spans(4))
    assert (goes["waits"], goes["ends"], goes["why"]) == ([], [], [])


def test_who_was_stopped_at_a_moment_of_the_past_is_known() -> None:
    answer = made_ranks.spans(2, stopped=1, at_s=12.0)
    held = {"kind": "pause", "name": "stopped", "start_s": 12.0, "took_s": 8.0, "ended": False}
    answer["spans"].append({**answer["spans"][0], "rank": 1, **held})
    assert [row["state"] for row in moments.ranks_of(answer)["ranks"]] == ["waits", "stopped"]


def test_for_a_phone_it_is_as_wide_as_its_screen_and_nothing_is_cut_off() -> None:
    answer = made_ranks.spans(4, stopped=1, at_s=12.0)
    root = ElementTree.fromstring(timeline_svg.drawn(answer, width=timeline_svg.NARROW))
    wide = ElementTree.fromstring(timeline_svg.drawn(answer))
    assert float(root.get("width", "")) == timeline_svg.NARROW
    assert float(root.get("height", "")) > float(wide.get("height", ""))
    texts = [each for each in root.iter() if each.tag.endswith("text")]
    for each in texts:
        if each.get("text-anchor", "start") == "start":
            size = float(each.get("font-size", "12"))
            ends = float(each.get("x", "")) + len(each.text or "") * size * svg.CHARACTER
            assert ends <= timeline_svg.NARROW, each.text
    said = " ".join(each.text or "" for each in texts)
    assert "rank 1 on node-0 has done nothing since 12.0 s" in said
    bars = [each for each in root.iter() if "bar" in each.get("class", "").split()]
    assert bars
