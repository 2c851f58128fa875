"""Of which axis a collective or a message is, by its group's number or its peer."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_spans import block_of, write

from holdfast.protocol.groups import members_hash
from holdfast.protocol.topology import Axis, Topology
from holdfast.traces import read, tables
from holdfast.traces.axes import MOST_ALIKE, Axes
from holdfast.traces.model import Span
from holdfast.traces.perfetto import trace

SHAPE = Topology(dp=2, pp=2, tp=2)
sizes = st.integers(1, 4)
topologies = st.builds(
    Topology, dp=sizes, pp=sizes, tp=sizes, order=st.permutations(list(Axis)).map(tuple)
)


def span(rank: int, members: tuple[int, ...] = (), **more: Any) -> Span:
    group = members_hash(members, 0) if members else 0
    fields = {"kind": "collective", "name": "all_reduce", "number": 1, "took_s": 1.0}
    return Span(rank=rank, attempt=1, node="node-1", group=group, **{**fields, **more})


@given(topologies, st.integers(0, MOST_ALIKE - 1), st.data())
def test_each_group_along_an_axis_is_of_it_on_each_of_its_ranks(
    shape: Topology, ordinal: int, data: st.DataObject
) -> None:
    axis = data.draw(st.sampled_from(list(Axis)))
    members = data.draw(st.sampled_from(shape.groups(axis)))
    rank = data.draw(st.sampled_from(members))
    told = Axes(shape).of(rank, "collective", "all_reduce", members_hash(members, ordinal))
    assert told == (axis.value if shape.size(axis) > 1 else "")


@given(topologies, st.data())
def test_a_message_is_of_the_one_axis_along_which_both_differ(
    shape: Topology, data: st.DataObject
) -> None:
    ranks = st.integers(0, shape.world_size - 1)
    rank, peer = data.draw(ranks), data.draw(ranks)
    told = Axes(shape).of(rank, "p2p", f"sends to {peer}", 0)
    mine, its = shape.coordinates(rank), shape.coordinates(peer)
    assert told == ("".join(a.value for a in Axis if mine[a] != its[a]) if told else "")
    assert bool(told) == (sum(mine[a] != its[a] for a in Axis) == 1)


def test_of_none_or_of_nobody_knows_whose_it_is_no_axis() -> None:
    axes = Axes(SHAPE)
    everybody = members_hash(tuple(range(8)), 0)
    assert axes.of(0, "collective", "all_reduce", everybody) == ""
    assert axes.of(99, "collective", "all_reduce", everybody) == ""
    assert axes.of(0, "p2p", "sends to nobody", 0) == ""
    assert axes.of(0, "p2p", "sends to 99", 0) == ""
    assert axes.of(0, "step", "", 0) == ""
    assert Axes().of(0, "collective", "all_reduce", everybody) == ""


def test_groups_of_before_it_went_on_with_fewer_are_known_as_declared() -> None:
    members = Topology(dp=4, tp=2).group(0, Axis.DP)
    group = members_hash(members, 0)
    assert Axes(Topology(dp=2, tp=2)).of(0, "collective", "all_reduce", group) == ""
    both = Axes(Topology(dp=2, tp=2), Topology(dp=4, tp=2))
    assert both.of(0, "collective", "all_reduce", group) == "dp"


SPANS = [
    span(0, SHAPE.group(0, Axis.DP)),
    span(1, SHAPE.group(1, Axis.TP), start_s=1.0, waited_s=0.5),
    span(4, kind="p2p", name="receives from 0", number=0, start_s=2.0, waited_s=0.5),
    span(2, tuple(range(8)), start_s=3.0),
    span(3, kind="step", name="", number=0, start_s=4.0),
]


def test_spans_are_read_with_their_axes(tmp_path: Path) -> None:
    write(tmp_path, block_of(SPANS))
    found = read.find(tmp_path, "speech", axes=Axes(SHAPE)).spans
    assert [each.axis for each in found] == ["dp", "tp", "pp", "", ""]
    assert {each.axis for each in read.spans(tmp_path, "speech")} == {""}


def test_perfetto_names_the_axis(tmp_path: Path) -> None:
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    write(tmp_path, block_of(SPANS))
    read_back = protos.Trace()
    read_back.ParseFromString(
        b"".join(trace(read.find(tmp_path, "speech", axes=Axes(SHAPE)).spans))
    )
    names = {each.track_event.name for each in read_back.packet if each.HasField("track_event")}
    wanted = {"all_reduce dp", "all_reduce tp", "receives from 0 pp", "all_reduce", "step 0"}
    assert names - {""} == wanted


def test_views_have_a_column_for_it(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    folder = write(tmp_path, block_of(SPANS))

    def asked(sql: str, axes: dict[str, Axes]) -> list[tuple[Any, ...]]:
        with tables.tables([folder], axes=axes) as made:
            return made.ask(sql)[1]

    known = {"speech": Axes(SHAPE)}
    sql = "SELECT rank, axis FROM spans ORDER BY start_s"
    assert asked(sql, known) == [(0, "dp"), (1, "tp"), (4, "pp"), (2, None), (3, None)]
    assert asked("SELECT axis FROM waits ORDER BY start_s", known) == [("tp",), ("pp",)]
    assert asked("SELECT count(*) FROM collectives WHERE axis = 'dp'", known) == [(1,)]
    assert {axis for _, axis in asked(sql, {"speech": Axes()})} == {None}
    assert {axis for _, axis in asked(sql, {})} == {None}
