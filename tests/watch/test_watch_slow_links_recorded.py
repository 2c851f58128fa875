"""The detector of slow links on flows of a real job (`python -m holdfast.bench.links record`)."""

from pathlib import Path

from holdfast.bench.links import trace
from holdfast.protocol.faults import Kind

TRACES = Path(__file__).with_name("traces")
TRACE, EVERYWHERE = TRACES / "links.jsonl.xz", TRACES / "links_everywhere.jsonl.xz"
SPOILED = {"slow", "sends", "loses", "late"}


def test_each_bad_link_is_told_with_its_node_and_each_is_taken_back() -> None:
    found = list(trace.told(trace.read(TRACE)))
    told = {phase: each for _, phase, each in found if each.kind is Kind.LINK_SLOW}
    assert set(told) == SPOILED
    assert {phase for phase, each in told.items() if "loses packets" in each.summary} == {"loses"}
    assert all("node-2" in each.summary for each in told.values())
    assert {told[phase].node for phase in ("slow", "late")} == {"node-2"}
    assert [each.kind for _, _, each in found] == [Kind.LINK_SLOW, Kind.LINK_WELL] * len(SPOILED)


def test_good_links_of_a_busy_machine_are_not_told() -> None:
    beats = [beat for beat in trace.read(TRACE) if beat.phase in ("good", "busy")]
    assert list(trace.told(beats)) == []


def test_where_each_node_sends_to_each_the_same_node_is_named() -> None:
    found = [(phase, each.kind, each.node) for _, phase, each in trace.told(trace.read(EVERYWHERE))]
    assert found == [
        ("slow", Kind.LINK_SLOW, "node-2"),
        ("good", Kind.LINK_WELL, None),
        ("loses-both", Kind.LINK_SLOW, "node-2"),
        ("good", Kind.LINK_WELL, None),
    ]
