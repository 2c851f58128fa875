"""A store that nodes do not share is said once, and once that they do."""

from typing import Any

from holdfast.driver.core.faults.fault import fault_of
from holdfast.driver.watch import Watch
from holdfast.protocol.faults import Blame, Kind, Weight
from holdfast.protocol.messages import Observed

MISSING = "what the node of rank 0 left in file:///ckpt"


class Executors:
    """Reports of a job's executors, and what is found in them."""

    def __init__(self) -> None:
        self.watch = Watch()

    def say(self, node: str, shared: bool | None, **fields: Any) -> list[tuple[Kind, str]]:
        seen = Observed(
            node=node,
            incarnation="a",
            sequence=1,
            generation=1,
            store_shared=shared,
            store_missing=MISSING if shared is False else "",
            **{"job": "speech", "epoch": 1, **fields},
        )
        found = [event.finding for event in self.watch.observed(seen)]  # type: ignore[union-attr]
        assert all(each.weight is Weight.REPORT for each in found)
        bad = [each for each in found if each.kind is Kind.STORE_NOT_SHARED]
        assert all(fault_of(each).blame is Blame.INFRASTRUCTURE for each in bad)
        return [(each.kind, each.summary) for each in found]


def test_it_is_said_once_for_all_nodes_and_all_attempts() -> None:
    executors = Executors()
    assert executors.say("n0", None) == []
    ((kind, text),) = executors.say("n0", False)
    assert kind is Kind.STORE_NOT_SHARED
    assert text.startswith(f"n0 does not see {MISSING}, so that no checkpoint of speech")
    assert executors.say("n1", False) == []
    assert executors.say("n0", None, epoch=2) == []
    assert executors.say("n0", False, epoch=2) == []


def test_it_is_over_once_every_node_that_missed_something_sees_it() -> None:
    executors = Executors()
    assert executors.say("n0", True) == []
    executors.say("n0", False)
    executors.say("n1", False)
    assert executors.say("n2", True) == []
    assert executors.say("n0", True) == []
    assert [kind for kind, _ in executors.say("n1", True)] == [Kind.STORE_SHARED]
    assert executors.say("n1", True) == []


def test_a_node_that_left_the_job_does_not_keep_it_open() -> None:
    executors = Executors()
    executors.say("n1", False)
    assert executors.say("n1", None, job=None) == []
    assert [kind for kind, _ in executors.say("n0", True, epoch=2)] == [Kind.STORE_SHARED]
