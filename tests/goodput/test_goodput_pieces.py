"""A job's life, told by hand, and the pieces that its time is cut into."""

from typing import Any

import pytest

from holdfast.driver.core import events
from holdfast.driver.noted import Doing, What
from holdfast.driver.people.goodput.account import NO_FAULT, STARTED, clipped, summed
from holdfast.driver.people.goodput.fleet import fleet_of
from holdfast.driver.people.goodput.marks import Life, Mark, take
from holdfast.driver.people.goodput.pieces import Bucket, Piece, pieces_of
from holdfast.driver.ports import Entry

HANG: dict[str, Any] = {"incident": 1, "kind": "hang", "node": "node-1"}
CRASH: dict[str, Any] = {"incident": 2, "kind": "crash", "node": "node-2"}


def mark(at_s: float, what: What, attempt: int = 1, **more: Any) -> Mark:
    own = {
        name: more.pop(name) for name in ("ages_s", "before", "done", "stalled_s") if name in more
    }
    return Mark(at_s=at_s, doing=Doing(what=what, attempt=attempt, **more), **own)


def pieces(*marks: Mark, now: float = 100.0, whole: bool = True) -> list[Piece]:
    life = Life(job="speech", number=1, whole=whole, marks=list(marks))
    return pieces_of(life, now=now, begun_s=0.0)


def spent(*marks: Mark, now: float = 100.0) -> dict[str, float]:
    return {
        bucket.value: s for bucket, s in summed("speech", pieces(*marks, now=now)).buckets_s.items()
    }


BEGUN = (
    mark(0, What.QUEUED, 0),
    mark(1, What.WAIT, 0),
    mark(3, What.RENDEZVOUS, 0),
    mark(4, What.FORK),
    mark(5, What.BEGIN),
    mark(10, What.TRAIN, ages_s={"group": 4, "restore": 3, "step": 1}),
)


def test_the_first_start_and_the_training_that_follows() -> None:
    assert spent(*BEGUN) == {
        "kept": 91,
        "wait": 2,
        "rendezvous": 1,
        "fork": 1,
        "group": 1,
        "restore": 1,
        "first_step": 2,
        "queued": 1,
    }


def again(since: int | None, before: int) -> tuple[Mark, ...]:
    return (
        *BEGUN,
        mark(50, What.DECIDE, done=40),
        mark(51, What.STOP, **CRASH),
        mark(53, What.RENDEZVOUS, **CRASH),
        mark(54, What.FORK, 2, since=since, **CRASH),
        mark(55, What.BEGIN, 2, since=since, **CRASH),
        mark(70, What.TRAIN, 2, since=since, before=before, ages_s={"step": 12}),
    )


def test_what_is_done_again_is_known_once_the_job_is_further_than_before() -> None:
    told = spent(*again(30, 40))
    assert (told["first_step"], told["repeated"]) == (2 + 3, 12)
    assert told["kept"] == (50 - 9) + 30
    assert (told["decide"], told["stop"]) == (1, 2)


def test_a_job_that_goes_on_where_it_was_repeats_nothing() -> None:
    assert "repeated" not in spent(*again(40, 40))


def test_what_a_script_loads_by_itself_is_taken_for_repeated_until_it_is_further() -> None:
    assert spent(*again(None, 40))["repeated"] == 12


def test_all_that_a_fault_cost_is_put_down_to_it_from_its_first_sign_on() -> None:
    (cost,) = summed("speech", pieces(*again(30, 40))).costs
    assert (cost.incident, cost.kind, cost.node) == (2, "crash", "node-2")
    assert cost.begin_s == 50
    assert cost.lost_s == 20


def test_a_standstill_began_before_it_was_found() -> None:
    told = pieces(*BEGUN, mark(60, What.DECIDE, stalled_s=6, **HANG), mark(62, What.STOP, **HANG))
    assert [(p.bucket, p.begin_s, p.end_s) for p in told[-4:]] == [
        (Bucket.KEPT, 9, 54),
        (Bucket.DETECT, 54, 60),
        (Bucket.DECIDE, 60, 62),
        (Bucket.STOP, 62, 100),
    ]


def test_a_standstill_that_lasted_longer_than_the_job_trained_takes_no_more_than_there_was() -> (
    None
):
    told = pieces(*BEGUN, mark(12, What.STOP, stalled_s=60, **HANG))
    detect = next(p for p in told if p.bucket is Bucket.DETECT)
    assert (detect.begin_s, detect.end_s) == (7, 12)


def test_a_standstill_that_went_on_by_itself_was_training() -> None:
    told = spent(*BEGUN, mark(60, What.DECIDE, stalled_s=6, **HANG), mark(62, What.TRAIN))
    assert told["kept"] == 91
    assert not {"detect", "decide"} & told.keys()


def test_a_fault_that_comes_again_in_one_incident_has_a_standstill_of_its_own() -> None:
    second = mark(80, What.STOP, stalled_s=4, **HANG)
    told = spent(
        *BEGUN, mark(60, What.STOP, stalled_s=6, **HANG), mark(65, What.TRAIN, 2, **HANG), second
    )
    assert told["detect"] == 10


@pytest.mark.parametrize(
    ("end", "bucket"),
    [
        (mark(60, What.OVER, 2), "unseen"),
        (mark(60, What.STOP, 2), "unseen"),
        (mark(60, What.DECIDE, 2), "first_step"),
        (mark(60, What.DECIDE, 2, done=7), "repeated"),
        (mark(60, What.STOP, 2, **CRASH), "first_step"),
    ],
)
def test_ranks_that_nobody_saw_train(end: Mark, bucket: str) -> None:
    told = pieces(*BEGUN, mark(20, What.STOP, **HANG), mark(30, What.BEGIN, 2), end)
    assert next(p.bucket for p in told if p.begin_s == 30) == bucket


def test_what_has_begun_is_cut_as_a_whole_whatever_becomes_of_its_incident() -> None:
    told = spent(
        *BEGUN,
        mark(50, What.STOP, **CRASH),
        mark(55, What.BEGIN, 2, since=5, **CRASH),
        mark(60, What.BEGIN, 2, since=5),
        mark(70, What.TRAIN, 2, since=5, before=40, ages_s={"step": 12}),
    )
    assert told["repeated"] == 12
    assert told["first_step"] == 2 + 3


def test_before_the_first_entry_that_is_known_nothing_is() -> None:
    (unknown, trained) = pieces(mark(30, What.TRAIN), whole=False)
    assert (unknown.bucket, unknown.end_s) == (Bucket.UNKNOWN, 30)
    assert trained.bucket is Bucket.KEPT


def test_the_time_of_an_ended_job_does_not_go_on() -> None:
    assert pieces(*BEGUN, mark(20, What.OVER), now=1_000)[-1].end_s == 20


def test_suspended_time_is_no_time_in_which_it_was_to_run() -> None:
    told = summed("speech", pieces(*BEGUN, mark(50, What.STOP), mark(51, What.SUSPENDED)))
    assert told.ettr == pytest.approx(41 / 51)
    assert told.by_kind_s == {STARTED: 9, NO_FAULT: 1}


def test_a_job_that_was_never_to_run_has_no_ratio() -> None:
    assert summed("speech", pieces(mark(0, What.SUSPENDED, 0))).ettr is None


def test_what_is_cut_by_a_window_keeps_its_cause() -> None:
    told = clipped(pieces(*again(30, 40)), begin_s=51.5, end_s=52)
    assert [(p.bucket, p.took_s, p.incident) for p in told] == [(Bucket.STOP, 0.5, 2)]


def test_a_standstill_is_taken_off_once_though_its_incident_goes_on() -> None:
    def of_hang(at_s: float, what: What, attempt: int = 1, **told: Any) -> Mark:
        doing = Doing(what=what, attempt=attempt, stalled_s=6.0, **HANG)
        return Mark(at_s=at_s, doing=doing, **told)

    told = spent(
        *BEGUN,
        of_hang(60, What.STOP),
        of_hang(62, What.BEGIN, 2),
        of_hang(75, What.REPEAT, 2, ages_s={"step": 8}),
        mark(80, What.TRAIN, 2),
    )
    assert told["detect"] == 6
    assert told["first_step"] == 2 + 5


def test_stages_that_are_told_as_older_than_the_ranks_take_no_more_than_there_was() -> None:
    told = spent(*BEGUN[:-1], mark(10, What.TRAIN, ages_s={"group": 9, "restore": 3, "step": 1}))
    assert sum(told.values()) == 100
    assert ("group" in told, told["restore"], told["first_step"]) == (False, 2, 2)


def test_a_cause_has_a_job_once_however_often_it_hit_it() -> None:
    second = mark(80, What.STOP, **{**CRASH, "incident": 3})
    lives = [(name, pieces(*again(30, 40), second)) for name in ("speech", "video")]
    fleet = fleet_of(lives, {}, since_s=0.0)
    (crash,) = (share for share in fleet.by_kind if share.name == "crash")
    assert (crash.jobs, crash.incidents, crash.lost_s) == (2, 2, 2 * (20 + 20))
    assert sum(share.lost_s for share in fleet.by_kind) == 2 * (9 + 20 + 20)


def test_a_clock_that_went_back_takes_no_time_away() -> None:
    def entry(number: int, now_s: float, what: What) -> Entry:
        return Entry(
            sequence=number,
            term=1,
            now=now_s,
            at="",
            policy=1,
            event=events.StopRequested(job="speech", by="x"),
            effects=(),
            why="",
            doing={"speech": Doing(what=what)},
        )

    lives: dict[str, list[Life]] = {}
    for number, (now_s, what) in enumerate([(50, What.WAIT), (20, What.FORK), (60, What.TRAIN)]):
        take(lives, entry(number, now_s, what))
    assert [mark.at_s for mark in lives["speech"][0].marks] == [50, 50, 60]
