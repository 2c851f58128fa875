"""A checkpoint agent that says nothing is told as that, and not as a store that fails."""

from typing import Any

from holdfast.driver.watch import Watch
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Observed

SILENT = "it has not said what the store has"


def told(watch: Watch, node: str, **fields: Any) -> list[Finding]:
    seen = Observed(
        node=node,
        incarnation="a",
        sequence=1,
        generation=1,
        **{
            "job": "speech",
            "epoch": 1,
            "looking": "the checkpoint agent has not answered",
            **fields,
        },
    )
    return [event.finding for event in watch.observed(seen)]  # type: ignore[union-attr]


def test_a_silent_agent_is_told_once_a_node_and_attempt_and_its_store_is_not() -> None:
    watch = Watch()
    (finding,) = told(watch, "n0", agent_silent=SILENT)
    assert (finding.kind, finding.weight, finding.node) == (Kind.AGENT_SILENT, Weight.REPORT, "n0")
    assert finding.summary == (
        "the checkpoint agent on n0 is silent: it has not said what the store has. Nothing is "
        "known against the store of speech"
    )
    assert told(watch, "n0", agent_silent=SILENT) == []
    assert [each.node for each in told(watch, "n1", agent_silent=SILENT)] == ["n1"]
    assert told(watch, "n0") == []
    assert [each.epoch for each in told(watch, "n0", agent_silent=SILENT, epoch=2)] == [2]
    assert [each.kind for each in told(watch, "n0", store_error="it is full")] == [
        Kind.STORE_FAILED
    ]


def test_with_the_job_it_is_forgotten() -> None:
    watch = Watch()
    told(watch, "n0", agent_silent=SILENT)
    watch.keep(set())
    assert len(told(watch, "n0", agent_silent=SILENT)) == 1
