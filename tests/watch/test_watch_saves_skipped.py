"""A store that fails, and saves that are skipped, are said once for each change."""

from typing import Any

from msgspec.structs import replace

from holdfast.driver.watch import Watch
from holdfast.driver.watch.saves_skipped import judge
from holdfast.protocol.faults import Kind, Weight
from holdfast.protocol.messages import Observed, RankStatus, Snapshot

AWAY = "store: cannot write /ckpt/step-10: No space left on device. Free space there."

RANKS = (RankStatus(rank=0, state="running"),)


class Executors:
    """Reports of a job's executors, and what they lead to."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.sequence = 0

    def say(self, node: str = "n0", **fields: Any) -> list[tuple[Kind, str]]:
        self.sequence += 1
        seen = Observed(
            node=node,
            incarnation="a",
            sequence=self.sequence,
            generation=1,
            **{"job": "speech", "epoch": 1, "ranks": RANKS, **fields},
        )
        found = [event.finding for event in self.watch.observed(seen)]  # type: ignore[union-attr]
        assert all(each.weight is Weight.REPORT and each.job == seen.job for each in found)
        return [(each.kind, each.summary) for each in found]


def test_a_store_that_fails_is_said_once_and_once_that_it_works_again() -> None:
    executors = Executors()
    assert executors.say(persisted_step=5) == []
    (failed,) = executors.say(persisted_step=5, store_error=AWAY)
    assert failed == (Kind.STORE_FAILED, f"checkpoints of speech do not reach their store: {AWAY}")
    assert executors.say(persisted_step=5, store_error=AWAY.replace("10", "20")) == []
    assert executors.say(persisted_step=5) == [], "nothing was due, so that nothing failed"
    assert executors.say(persisted_step=5, store_error=AWAY) == []
    (back,) = executors.say(persisted_step=20)
    text = "checkpoints of speech reach their store again: step 20 did"
    assert back == (Kind.STORE_BACK, text)
    assert executors.say(persisted_step=30) == []
    assert len(executors.say(persisted_step=30, store_error=AWAY)) == 1


def test_a_restart_alone_does_not_mend_a_store() -> None:
    executors = Executors()
    assert len(executors.say(store_error=AWAY, persisted_step=5)) == 1
    assert executors.say(epoch=2) == []
    assert executors.say(epoch=2, store_error=AWAY) == []
    assert [kind for kind, _ in executors.say(epoch=2, persisted_step=10)] == [Kind.STORE_BACK]


def test_the_store_that_nodes_share_is_said_for_all_of_them() -> None:
    executors = Executors()
    assert len(executors.say("n0", store_error=AWAY)) == 1
    assert executors.say("n1", store_error=AWAY) == []
    assert executors.say("n0", persisted_step=10) == [], "the other still cannot"
    assert [kind for kind, _ in executors.say("n1", persisted_step=10)] == [Kind.STORE_BACK]


def test_a_node_that_has_left_the_job_is_not_waited_for() -> None:
    executors = Executors()
    assert len(executors.say("n0", store_error=AWAY)) == 1
    assert executors.say("n1", store_error=AWAY) == []
    assert executors.say("n1", job=None) == []
    assert [kind for kind, _ in executors.say("n0", persisted_step=10)] == [Kind.STORE_BACK]


def test_the_next_job_on_the_node_has_a_store_of_its_own() -> None:
    executors = Executors()
    assert len(executors.say(store_error=AWAY)) == 1
    assert executors.say(job=None) == []
    assert len(executors.say(job="vision", epoch=2, store_error=AWAY)) == 1


def test_a_standby_that_reports_an_error_and_never_writes_holds_no_all_clear_up() -> None:
    executors = Executors()
    assert executors.say("standby", ranks=(), store_error="no checkpoint agent") == []
    assert len(executors.say("n0", store_error=AWAY)) == 1
    assert executors.say("standby", ranks=(), store_error="no checkpoint agent: it died") == []
    assert kinds(executors.say("n0", persisted_step=10)) == [Kind.STORE_BACK]


def test_a_node_that_failed_and_stands_by_since_the_restart_holds_none_up() -> None:
    executors = Executors()
    assert kinds(executors.say("n1", store_error=AWAY)) == [Kind.STORE_FAILED]
    for step in (None, 10):
        assert executors.say("n1", epoch=2, ranks=(), store_error=AWAY) == []
        assert executors.say("n0", epoch=2) == [], f"not before it has written, {step}"
    assert kinds(executors.say("n0", epoch=2, persisted_step=10)) == [Kind.STORE_BACK]


def test_where_the_only_node_that_failed_has_left_the_others_take_it_back() -> None:
    executors = Executors()
    assert executors.say("n0", persisted_step=5) == []
    assert kinds(executors.say("n1", persisted_step=5, store_error=AWAY)) == [Kind.STORE_FAILED]
    assert executors.say("n1", job=None) == []
    assert executors.say("n0", persisted_step=5) == []
    assert kinds(executors.say("n0", persisted_step=10)) == [Kind.STORE_BACK]


def test_a_node_that_looks_for_what_is_stored_tells_that_it_cannot() -> None:
    executors = Executors()
    looks = {"ranks": (), "looking": "nothing found so far", "store_error": AWAY}
    assert kinds(executors.say(**looks)) == [Kind.STORE_FAILED]
    assert executors.say(ranks=(), epoch=2) == []
    assert executors.say(epoch=2) == []
    assert kinds(executors.say(epoch=2, persisted_step=10)) == [Kind.STORE_BACK]


def test_skipped_saves_are_said_with_why_and_again_when_they_are_many_more() -> None:
    executors = Executors()
    told = [executors.say(skipped_saves=count, skipped_why="no room") for count in range(35)]
    counts = [count for count, found in enumerate(told) if found]
    assert counts == [1, 10]
    assert told[1] == [(Kind.SAVE_SKIPPED, "1 save of speech skipped on n0 so far: no room")]
    assert told[10] == [(Kind.SAVE_SKIPPED, "10 saves of speech skipped on n0 so far: no room")]


def made(epoch: int, step: int) -> tuple[Snapshot, ...]:
    return (Snapshot(rank=0, step=step, epoch=epoch),)


def test_a_job_without_snapshots_is_said_once_and_once_that_they_are_made_again() -> None:
    executors = Executors()
    assert executors.say(skipped_in_a_row=9, snapshots=made(1, 4)) == []
    full = {"skipped_in_a_row": 10, "skipped_why": "step 14: no room", "snapshots": made(1, 4)}
    (stopped,) = executors.say(**full)
    text = (
        "no snapshot of speech is made on n0 any more: 10 saves in a row refused, so that a "
        "fault costs all steps since: step 14: no room"
    )
    assert stopped == (Kind.SNAPSHOTS_STOPPED, text)
    assert executors.say(**full | {"skipped_in_a_row": 11, "skipped_saves": 11}) == [
        (Kind.SAVE_SKIPPED, "11 saves of speech skipped on n0 so far: step 14: no room")
    ]
    assert executors.say("n1", **full) == [], "of one job once"
    assert executors.say(epoch=2, snapshots=made(1, 4)) == [], "a restart alone mends nothing"
    assert executors.say("n1", epoch=2, skipped_in_a_row=1) == []
    assert executors.say(epoch=2, snapshots=made(2, 5)) == [], "n1 has none"
    back = executors.say("n1", epoch=2, snapshots=made(2, 5))
    assert back == [(Kind.SNAPSHOTS_BACK, "snapshots of speech are made again on n1")]


def test_a_report_with_nothing_new_costs_the_same_however_many_nodes_there_are() -> None:
    blank = Observed(node="n0", incarnation="a", sequence=1, generation=1, epoch=1)
    seen = replace(blank, job="speech", persisted_step=5)
    known, _ = judge({}, seen)
    again, found = judge(known, replace(seen, persisted_step=10))
    assert (found, again is known) == ((), True)
    free = replace(seen, node="n1", job=None)
    assert judge(known, free)[0] is known


STAYS = "store: cannot delete /ckpt/step-10: Operation not permitted. Let rank 0 delete there."


def test_a_store_that_lets_nothing_go_is_said_once_and_once_that_it_does() -> None:
    executors = Executors()
    text = f"old checkpoints of speech stay in its store, which fills up: {STAYS}"
    assert executors.say(undeleted=STAYS) == [(Kind.STORE_FILLS, text)]
    assert executors.say(undeleted=STAYS) == []
    assert executors.say() == [], "nothing was tried since"
    assert executors.say(undeleted=STAYS, epoch=2) == []
    again = "old checkpoints of speech are deleted again"
    assert executors.say("n1", swept=True, epoch=3) == [(Kind.STORE_SWEPT, again)]
    assert executors.say("n1", swept=True, epoch=3) == []
    assert kinds(executors.say("n1", undeleted=STAYS, epoch=3)) == [Kind.STORE_FILLS]
    assert kinds(executors.say(job="vision", undeleted=STAYS)) == [Kind.STORE_FILLS]


# ---------------------------------------------------------------- after another driver


def kinds(found: list[tuple[Kind, str]]) -> list[Kind]:
    return [kind for kind, _ in found]


def test_a_failure_that_an_earlier_driver_told_is_taken_back_by_this_one() -> None:
    executors = Executors()
    executors.watch.recall("speech", {Kind.STORE_FAILED: "n0"})
    assert executors.say("n1", persisted_step=10) == [], "it may have been written before"
    assert executors.say("n0", persisted_step=10, store_error=AWAY) == [], "that is known"
    assert executors.say("n1", persisted_step=20) == [], "n0 still cannot"
    assert kinds(executors.say("n0", persisted_step=20)) == [Kind.STORE_BACK]
    assert executors.say("n2", persisted_step=20) == []
    assert executors.say("n2", persisted_step=30) == [], "said once"
    assert kinds(executors.say("n2", store_error=AWAY)) == [Kind.STORE_FAILED]


def test_a_standby_that_never_writes_keeps_nobody_from_taking_it_back() -> None:
    executors = Executors()
    executors.watch.recall("speech", {Kind.STORE_FAILED: "n0"})
    for _ in range(2):
        assert executors.say("standby", ranks=()) == []
    assert executors.say("n0", persisted_step=10) == []
    assert kinds(executors.say("n0", persisted_step=20)) == [Kind.STORE_BACK]
    assert kinds(executors.say("n0", store_error=AWAY)) == [Kind.STORE_FAILED]


def test_snapshots_that_an_earlier_driver_missed_are_told_to_be_back_by_their_node() -> None:
    executors = Executors()
    executors.watch.recall("speech", {Kind.SNAPSHOTS_STOPPED: "n0"})
    made = (Snapshot(rank=0, step=3, epoch=1),)
    assert executors.say("n1", snapshots=made) == []
    assert executors.say("n0", skipped_in_a_row=30, skipped_saves=0) == []
    assert kinds(executors.say("n0", snapshots=made)) == [Kind.SNAPSHOTS_BACK]


def test_nodes_that_an_earlier_driver_told_apart_are_told_to_share_again() -> None:
    executors = Executors()
    executors.watch.recall("speech", {Kind.STORE_NOT_SHARED: "n0"})
    assert executors.say("n0", store_shared=False) == []
    assert kinds(executors.say("n0", store_shared=True)) == [Kind.STORE_SHARED]


def test_a_store_that_an_earlier_driver_said_to_fill_up_is_taken_back_by_this_one() -> None:
    executors = Executors()
    executors.watch.recall("speech", {Kind.STORE_FILLS: "n0"})
    assert executors.say(undeleted=STAYS) == []
    assert kinds(executors.say(swept=True)) == [Kind.STORE_SWEPT]
    assert executors.say(swept=True) == []
