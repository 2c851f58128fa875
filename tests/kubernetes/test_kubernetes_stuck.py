"""Which deleted pods are told of, for their node never says that they ended."""

from typing import Any

from holdfast.driver.adapters.kubernetes import names
from holdfast.driver.adapters.kubernetes.stuck import STUCK_S, Stuck

GRACE_S = 30.0


def pod(
    uid: str, *, node: str = "away", deleted: bool = True, grace_s: float = GRACE_S
) -> dict[str, Any]:
    """Deleted at a time that has nothing to do with our clock."""
    metadata: dict[str, Any] = {"uid": uid, "annotations": {names.NODE: node}}
    if deleted:
        metadata |= {"deletionTimestamp": "1999-01-01T00:00:00Z"}
        metadata |= {"deletionGracePeriodSeconds": int(grace_s)}
    return {"metadata": metadata}


def no_stray(pod: dict[str, Any]) -> bool:
    return False


def stuck_away() -> Stuck:
    """Its nodes are away, and every pod is wanted."""
    return Stuck(lambda node: False, no_stray)


def due(stuck: Stuck, now_s: float, *known: dict[str, Any]) -> list[str]:
    return [each["metadata"]["uid"] for each, _ in stuck.due(known, now_s)]


def test_its_grace_and_a_little_more_are_counted_from_when_it_was_seen() -> None:
    stuck = stuck_away()
    assert due(stuck, 100.0, pod("a")) == []
    assert due(stuck, 100.0 + GRACE_S + STUCK_S, pod("a")) == []
    assert due(stuck, 100.1 + GRACE_S + STUCK_S, pod("a"), pod("late")) == ["a"]


def test_it_is_told_of_again_only_after_as_long_and_since_when_it_is_stuck() -> None:
    stuck = stuck_away()
    first_s = GRACE_S + STUCK_S + 0.1
    assert stuck.due([pod("a")], 0.0) == []
    assert stuck.due([pod("a")], first_s) == [(pod("a"), first_s)]
    assert stuck.due([pod("a")], first_s + GRACE_S) == []
    assert stuck.due([pod("a")], 2 * first_s) == [(pod("a"), 2 * first_s)]


def test_what_force_has_not_removed_is_held_by_another_than_its_node() -> None:
    stuck = stuck_away()
    assert due(stuck, 0.0, pod("a", grace_s=0)) == due(stuck, 100.0, pod("a", grace_s=0)) == []


def test_a_node_that_came_back_has_its_time_again() -> None:
    away = {"away"}
    stuck = Stuck(lambda node: node not in away, no_stray)
    assert due(stuck, 0.0, pod("a")) == []
    away.clear()
    assert due(stuck, 1.0, pod("a")) == []
    away.add("away")
    assert due(stuck, GRACE_S + STUCK_S + 0.5, pod("a")) == []


def test_one_that_nobody_wants_is_told_of_wherever_its_node_is() -> None:
    stuck = Stuck(lambda node: True, lambda pod: pod["metadata"]["uid"] == "stray")
    known = pod("stray", deleted=False), pod("kept", deleted=False)
    assert due(stuck, 0.0, *known) == due(stuck, STUCK_S, *known) == []
    assert due(stuck, STUCK_S + 0.1, *known) == ["stray"]


def test_what_is_not_deleted_or_whose_node_is_there_is_left_alone() -> None:
    stuck = Stuck(lambda node: node == "there", no_stray)
    known = pod("kept", deleted=False), pod("ends", node="there")
    assert due(stuck, 0.0, *known) == due(stuck, 1_000.0, *known) == []
