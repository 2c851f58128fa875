"""Pauses of healthy jobs are said and outwaited; who is dead or stuck is acted on soon."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.driver.watch.standstill_manner import Cpu, Manner, manner, works
from holdfast.protocol.faults import Kind, Weight
from holdfast.protocol.messages import GroupProgress, RankProgress
from holdfast.telemetry.calls import LATE_S, LEAST_S

Alter = Callable[[RankProgress], RankProgress]


@pytest.fixture
def running(cluster: Any) -> Any:
    """Two nodes, four ranks, ten seconds of steps of .2 s."""
    two = cluster(2)
    assert two.go(10) == []
    return two


def pauses(cluster: Any, **seen: Any) -> None:
    """Rank 2 is as `seen`, its stack known; all others wait for it in a collective."""
    cluster.running = False
    began = cluster.now

    def alter(progress: RankProgress) -> RankProgress:
        if progress.rank == 2:
            since_s = cluster.now - began
            fields = {"frame": "evaluate (train.py:31)", "frame_still_s": since_s, **seen}
            if "silent_s" in seen:
                fields["silent_s"] = since_s
            return replace(progress, **fields)
        (group,) = progress.groups
        return replace(progress, groups=(replace(group, enqueued=group.enqueued + 1),))

    cluster.alter = alter


def goes_on(cluster: Any) -> None:
    cluster.alter, cluster.running = (lambda seen: seen), True


def stopped(seen: RankProgress, for_s: float) -> RankProgress:
    """No thread of it runs."""
    return replace(seen, process="T", silent_s=for_s)


MOVING = {"frame_still_s": 0.1}
CARRIES = {"moved_s": 0.3, "moved": "its connections carry 90 MB/s", "pause": "saves"}


@pytest.mark.parametrize(
    ("seen", "acted_s"),
    [
        pytest.param({"process": "T", "silent_s": 1.0}, (5, 7), id="stopped"),
        pytest.param({"silent_s": 1.0}, (5, 7), id="its pulse stands"),
        pytest.param({}, (15, 17), id="blocked at one line"),
        pytest.param({"process": "R"}, (15, 17), id="spins at one line"),
        pytest.param(MOVING, (600, 603), id="its stack changes"),
        pytest.param(CARRIES, (600, 603), id="uploads"),
        pytest.param({"moved_s": 0.1, "moved": "its child processes use 1.0 cores"}, (600, 603)),
        pytest.param({"pause": "saves"}, (60, 62), id="says that it saves, and nothing moves"),
        pytest.param({"pause": "evaluates", **MOVING}, (600, 603), id="evaluates"),
    ],
)
def test_how_soon_a_rank_is_acted_on_follows_from_how_it_stands_still(
    running: Any, seen: dict[str, Any], acted_s: tuple[float, float]
) -> None:
    pauses(running, **seen)
    least_s, most_s = acted_s
    said = running.go(least_s - 0.5)
    assert [(each.kind, each.weight) for each in said] in (
        [],
        [(Kind.STANDSTILL, Weight.REPORT)],
    )
    (finding,) = [each for each in running.go(most_s - least_s + 0.5) if each not in said]
    assert (finding.kind, finding.rank, finding.weight) == (Kind.HANG, 2, Weight.RESTART)
    assert "evaluate (train.py:31)" in " ".join(piece.text for piece in finding.evidence)


def test_a_pulse_that_has_only_just_stopped_in_a_long_pause_is_no_death(running: Any) -> None:
    """Where others use the processors it may come late."""
    pauses(running, **MOVING)
    running.go(60)
    evaluating, silent_s = running.alter, 2.0

    def alter(seen: RankProgress) -> RankProgress:
        return replace(evaluating(seen), silent_s=silent_s * (seen.rank == 2))

    running.alter = alter
    assert running.go(3) == []
    silent_s = 3.1
    (said,) = running.go(3)
    assert said.weight is Weight.REPORT
    assert said.summary.endswith("if nothing moves for 5 s it is restarted")


def test_one_that_is_stopped_for_a_moment_in_a_long_pause_is_left_alone(running: Any) -> None:
    """As by a debugger, or by who takes its stack: it counts from then on."""
    pauses(running, **MOVING)
    running.go(60)
    began_s, evaluating = running.now, running.alter

    def alter(seen: RankProgress) -> RankProgress:
        seen = evaluating(seen)
        return stopped(seen, running.now - began_s) if seen.rank == 2 else seen

    running.alter = alter
    assert all(each.weight is Weight.REPORT for each in running.go(3))
    (finding,) = running.go(3)
    assert (finding.kind, finding.rank) == (Kind.HANG, 2)


def test_a_standstill_that_was_said_and_ends_is_cleared(running: Any) -> None:
    pauses(running, **MOVING)
    assert [each.kind for each in running.go(25)] == [Kind.STANDSTILL]
    goes_on(running)
    (clear,) = running.go(5)
    assert (clear.kind, clear.weight) == (Kind.GOES_ON, Weight.REPORT)
    waited = "job goes on by itself: it had waited for rank 2 on node-1"
    assert clear.summary.startswith(f"{waited} (when that was said: rank 2 is at work")
    pauses(running, process="T", silent_s=1.0)
    said, finding = running.go(12)
    assert said.kind is Kind.STANDSTILL
    assert finding.kind is Kind.HANG, "a long pause of one that worked protects none that is dead"


def test_all_ranks_at_work_without_a_collective_are_waited_for(running: Any) -> None:
    running.running = False
    running.alter = lambda seen: replace(seen, frame="main (train.py:5)", frame_still_s=0.1)
    (said,) = running.go(120)
    assert (said.kind, said.rank) == (Kind.STANDSTILL, None)
    goes_on(running)
    assert [each.kind for each in running.go(5)] == [Kind.GOES_ON]


def test_one_of_them_that_is_stopped_is_named(running: Any) -> None:
    running.running, began_s = False, running.now

    def alter(seen: RankProgress) -> RankProgress:
        seen = replace(seen, frame="main (train.py:5)", frame_still_s=0.1)
        return stopped(seen, running.now - began_s) if seen.rank == 3 else seen

    running.alter = alter
    named, finding = running.go(8)
    assert (named.kind, named.rank, named.node) == (Kind.STANDSTILL, 3, "node-1")
    assert (finding.kind, finding.rank, finding.node) == (Kind.HANG, 3, "node-1")
    assert "rank 3 does not run; it was in main (train.py:5)" in finding.summary


def test_while_one_that_others_wait_for_works_none_that_is_stuck_is_acted_on(running: Any) -> None:
    """A rank may wait for another by means that nobody sees, e.g. for a file."""
    pauses(running, **MOVING)
    works = running.alter

    def alter(seen: RankProgress) -> RankProgress:
        still = replace(seen, frame="wait (train.py:9)", frame_still_s=600.0)
        return still if seen.rank == 0 else works(seen)

    running.alter = alter
    assert [each.kind for each in running.go(60)] == [Kind.STANDSTILL]


def test_a_standstill_that_is_acted_on_says_where_and_what_would_have_helped(
    running: Any,
) -> None:
    pauses(running)
    finding = running.go(20)[-1]
    assert finding.spot == f"evaluate (train.py:31), step {running.step}"
    assert "holdfast.telemetry.pause()" in finding.fix
    assert "stuckMaxS (`holdfast run --stuck-max`)" in finding.fix


def sleeps(cluster: Any, *lengths_s: float, over_s: float = 0) -> None:
    """Rank 2 sleeps at one line, once for each length, then stands there; all others wait. Its
    last sleep is over `over_s` before that is seen.
    """
    began = cluster.now
    pauses(cluster)
    stands = cluster.alter

    def alter(seen: RankProgress) -> RankProgress:
        ends_s = [began + sum(lengths_s[: at + 1]) for at in range(len(lengths_s))]
        now = next((at for at, end_s in enumerate(ends_s) if end_s > cluster.now), None)
        if seen.rank != 2 or now is None:
            return stands(seen)
        left_s = max(LEAST_S, ends_s[now] - cluster.now - over_s)
        slept = {"call": "sleeps", "sleep_s": lengths_s[now], "sleep_left_s": left_s}
        return replace(stands(seen), **slept)

    cluster.alter = alter


@pytest.mark.parametrize("length_s", [14.9, 16, 20, 300, 590])
def test_one_sleep_that_ends_within_a_pause_is_told_and_not_acted_on(
    running: Any, length_s: float
) -> None:
    sleeps(running, length_s)
    (said,) = running.go(length_s - 0.2)
    assert (said.kind, said.rank) == (Kind.STANDSTILL, 2)
    assert "rank 2 sleeps in evaluate (train.py:31), " in said.summary
    assert said.summary.endswith("nothing is done about it before that is over")
    goes_on(running)
    assert [each.kind for each in running.go(5)] == [Kind.GOES_ON]


def test_who_sleeps_and_wakes_before_anything_is_done_is_not_called_stuck(running: Any) -> None:
    sleeps(running, 12)
    (said,) = running.go(11.8)
    assert "rank 2 sleeps in evaluate (train.py:31), " in said.summary
    assert "stuck in" not in said.summary
    assert said.summary.endswith("(--stuck-max or telemetry.pause() gives it longer)")


def test_the_last_moments_of_a_sleep_about_as_long_as_a_rank_may_be_stuck_are_no_hang(
    running: Any,
) -> None:
    sleeps(running, 14.9)
    running.go(14.8)
    running.silent = set(running.names)
    assert [each for each in running.go(1) if each.weight is not Weight.REPORT] == []


def test_who_stands_on_where_it_slept_is_stuck(running: Any) -> None:
    sleeps(running, 20)
    assert running.go(22)[-1].kind is Kind.HANG


@pytest.mark.parametrize(
    ("lengths_s", "acted_s"),
    [
        pytest.param([1e9], 15, id="ends long after a pause"),
        pytest.param([650], 15, id="ends after a pause"),
        pytest.param([0.1] * 1_000, 15, id="a loop of short sleeps"),
        pytest.param([4] * 100, 15, id="a loop of sleeps shorter than it may be stuck"),
        pytest.param([30] * 40, 570, id="a loop of long ones"),
    ],
)
def test_a_sleep_that_does_not_end_soon_or_is_one_of_many_protects_no_longer(
    running: Any, lengths_s: list[float], acted_s: float
) -> None:
    sleeps(running, *lengths_s)
    assert [each.kind for each in running.go(acted_s - 1)] == [Kind.STANDSTILL]
    assert [each.kind for each in running.go(35)] == [Kind.HANG]


def test_before_a_sleep_is_over_nobody_believes_it_is(running: Any) -> None:
    """What a heartbeat said of it counts until the next one."""
    sleeps(running, 20)
    running.go(19.9)
    running.silent = set(running.names)
    assert [each for each in running.go(1) if each.weight is not Weight.REPORT] == []


def test_who_has_slept_and_is_about_to_go_on_is_not_acted_on(running: Any) -> None:
    sleeps(running, 20 + LATE_S, over_s=LATE_S)
    assert [each.kind for each in running.go(20 + LATE_S - 0.1)] == [Kind.STANDSTILL]
    goes_on(running)
    assert [each.kind for each in running.go(5)] == [Kind.GOES_ON]


@pytest.mark.parametrize(("stuck_max_s", "acted_s"), [(40, 40), (7, 7), (2, 5)])
def test_how_long_a_rank_may_be_stuck_is_the_jobs_word(
    cluster: Any, stuck_max_s: float, acted_s: float
) -> None:
    two = cluster(2)
    two.expect(stuck_max_s=stuck_max_s)
    two.go(10)
    pauses(two, call="waits for a child process")
    assert [each for each in two.go(acted_s - 1) if each.weight is not Weight.REPORT] == []
    finding = two.go(3)[-1]
    assert finding.kind is Kind.HANG
    told = " ".join(each.text for each in finding.evidence)
    assert (
        "stands still in evaluate (train.py:31), where it waits for a child process: nothing"
        in told
    )


def test_a_mark_gives_no_less_than_the_jobs_word(cluster: Any) -> None:
    two = cluster(2)
    two.expect(stuck_max_s=90.0)
    two.go(10)
    pauses(two, pause="pauses")
    assert [each.kind for each in two.go(89)] == [Kind.STANDSTILL]
    assert two.go(3)[-1].kind is Kind.HANG


@pytest.mark.parametrize(
    ("restarts", "limit_s"), [(0, 15), (1, 60), (2, 240), (3, 960), (9, 3_600)]
)
def test_patience_at_a_spot_grows_up_to_an_hour(
    cluster: Any, restarts: int, limit_s: float
) -> None:
    two = cluster(2)
    two.go(10)
    spot = f"evaluate (train.py:31), step {two.step}"
    two.expect(spots={spot: restarts})
    pauses(two)
    assert two.go(limit_s - 1)[-1].kind is Kind.STANDSTILL
    (finding,) = two.go(4)
    assert (finding.kind, finding.spot) == (Kind.HANG, spot)


def test_collectives_without_steps_have_a_rhythm_of_their_own(cluster: Any) -> None:
    two = cluster(2, first_step_s=600.0)

    def stepless(seen: RankProgress) -> RankProgress:
        return replace(seen, step=0)

    two.alter = stepless
    assert two.go(660) == []
    two.running = False
    assert two.go(4) == [], "a short pause after the time of the first step is no hang"
    two.running = True
    assert two.go(5) == []
    two.running = False
    began_s = two.now
    two.alter = lambda seen: (
        stopped(stepless(seen), two.now - began_s) if seen.rank == 1 else stepless(seen)
    )
    *said, finding = two.go(12)
    assert [each.kind for each in said] == [Kind.STANDSTILL]
    assert (finding.kind, finding.rank) == (Kind.HANG, 1)
    assert "no collective since collective" in finding.evidence[0].text


def test_a_job_that_only_prepares_has_no_rhythm_yet(cluster: Any) -> None:
    two = cluster(2, first_step_s=600.0)
    two.alter = lambda seen: replace(seen, step=0)
    two.go(10)
    two.running = False
    assert [each.weight for each in two.go(500)] == [Weight.REPORT], "that it has made no step yet"


@pytest.mark.parametrize(
    ("seen", "worked_s", "found"),
    [
        ({}, 0.4, Manner.WORKING),
        ({}, 9.0, Manner.STUCK),
        ({"frame": "f (x.py:1)", "frame_still_s": 9.0}, 0.4, Manner.WORKING),
        ({"frame": "f (x.py:1)", "frame_still_s": 9.0}, 9.0, Manner.STUCK),
        ({"silent_s": 9.0}, 0.4, Manner.DEAD),
        ({"silent_s": 9.0, "pause": "loads"}, 0.4, Manner.WORKING),
        ({"silent_s": 9.0}, 9.0, Manner.DEAD),
        ({"silent_s": 9.0, "process": "T"}, 0.4, Manner.DEAD),
        ({"silent_s": 9.0, "pause": "loads"}, 9.0, Manner.DEAD),
        ({"moved_s": 0.2, "pause": "loads", "silent_s": 9.0}, 9.0, Manner.WORKING),
        ({"moved_s": 0.2, "silent_s": 9.0}, 9.0, Manner.DEAD),
    ],
)
def test_the_manner_of_one_rank(seen: dict[str, Any], worked_s: float, found: Manner) -> None:
    progress = RankProgress(rank=0, epoch=1, still_s=9.0, **seen)
    assert manner(progress, Cpu(worked_s=worked_s)) is found


STANDS = {"frame": "sort (data.py:7)", "frame_still_s": 9.0}
PAUSED = {"pause": "evaluates", **STANDS}
IN_ONE = (GroupProgress(members=1, kind="all_reduce", enqueued=8, done=7),)
BETWEEN = (GroupProgress(members=1, kind="all_reduce", enqueued=7, done=7),)


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        pytest.param({"groups": BETWEEN, **STANDS}, False, id="spins or computes at one line"),
        pytest.param({"groups": BETWEEN, **PAUSED}, True, id="computes in a pause"),
        pytest.param({"groups": IN_ONE, **PAUSED}, False, id="spins in a collective"),
        pytest.param({"waiting": True, **PAUSED}, False, id="spins for a message"),
        pytest.param(
            {"groups": BETWEEN, "partial": ("done",), **PAUSED}, False, id="may be in one"
        ),
        pytest.param({"groups": IN_ONE}, True, id="in one, its stack not known"),
        pytest.param({"groups": IN_ONE, "partial": ("stack",), **STANDS}, True, id="nor here"),
    ],
)
def test_cpu_is_work_in_a_pause_but_in_no_collective(seen: dict[str, Any], found: bool) -> None:
    progress = RankProgress(rank=0, epoch=1, **seen)
    assert works(progress, 1.0) is found
    assert not works(progress, 0.2)


def computes(cluster: Any, **seen: Any) -> None:
    """Rank 2 uses a core at one line; all others wait for it."""
    pauses(cluster, **seen)
    stands, began = cluster.alter, cluster.now

    def alter(progress: RankProgress) -> RankProgress:
        spent_s = cluster.now - began if progress.rank == 2 else 0.0
        return replace(stands(progress), cpu_s=spent_s)

    cluster.alter = alter


@pytest.mark.parametrize("silent", [False, True], ids=["its pulse goes", "it lets no thread run"])
def test_a_long_call_that_uses_cpu_in_a_marked_pause_is_given_the_time_of_a_pause(
    running: Any, silent: bool
) -> None:
    computes(running, pause="evaluates", **({"silent_s": 1.0} if silent else {}))
    (said,) = running.go(599)
    assert said.summary.endswith(
        "rank 2 is at work in evaluate (train.py:31): it evaluates, and it uses CPU; without a "
        "step for 600 s it is restarted (--pause-max gives it longer)"
    )
    (finding,) = running.go(3)
    assert (finding.kind, finding.rank) == (Kind.HANG, 2)
    assert "pauseMaxS" in finding.fix


@pytest.mark.parametrize(
    ("used", "delayed", "works_on"),
    [
        pytest.param(0.25, 0.7, True, id="others have the processors"),
        pytest.param(0.25, 0.0, False, id="it wants no more"),
        pytest.param(0.01, 0.985, False, id="it hardly ran, and tells nothing"),
        pytest.param(0.6, -1.0, True, id="its delays began anew"),
    ],
)
def test_cpu_counts_as_a_share_of_what_could_be_had(
    running: Any, used: float, delayed: float, works_on: bool
) -> None:
    """A fourth of a core: who computes has no more on a machine that is that busy."""
    pauses(running, pause="evaluates")
    stands, began = running.alter, running.now

    def alter(progress: RankProgress) -> RankProgress:
        since_s = (running.now - began) * (progress.rank == 2)
        return replace(stands(progress), cpu_s=used * since_s, delayed_s=delayed * since_s)

    running.alter = alter
    said, *acted = running.go(65)
    assert ("it evaluates, and it uses CPU" in said.summary) is works_on
    assert [each.kind for each in acted] == ([] if works_on else [Kind.HANG])


def test_who_spins_in_a_collective_that_does_not_end_is_stuck(running: Any) -> None:
    """As some libraries wait: with a whole core, at one line."""
    began = running.now
    running.running = False
    running.alter = lambda seen: replace(
        seen,
        frame="backward (train.py:9)",
        frame_still_s=running.now - began,
        groups=(replace(seen.groups[0], enqueued=seen.groups[0].enqueued + 1),),
        cpu_s=running.now,
    )
    said, finding = running.go(17)
    assert (said.kind, finding.kind) == (Kind.STANDSTILL, Kind.NO_PROGRESS)
    assert "though it uses CPU" in " ".join(each.text for each in finding.evidence)


def test_a_limit_that_is_shorter_than_what_was_said_is_said_before_it_holds(running: Any) -> None:
    pauses(running, frame_still_s=0.1)
    (said,) = running.go(100)
    assert "without a step for 600 s" in said.summary
    pauses(running)
    (shorter,) = running.go(14.5)
    assert shorter.kind is Kind.STANDSTILL
    assert (
        "rank 2 stands still in evaluate (train.py:31): nothing of it is seen to move"
        in shorter.summary
    )
    assert "if nothing moves for 15 s it is restarted" in shorter.summary
    assert [each.kind for each in running.go(2)] == [Kind.HANG]


def test_a_limit_is_said_again_only_where_it_is_shorter(running: Any) -> None:
    pauses(running, frame_still_s=0.1)
    assert len(running.go(30)) == 1
    pauses(running, frame_still_s=5.0)
    assert len(running.go(1)) == 1
    for still_s in (0.1, 5.0, 0.1):
        pauses(running, frame_still_s=still_s)
        assert running.go(4) == []


@pytest.mark.parametrize(
    ("seen", "named_s", "says"),
    [
        pytest.param({"process": "T", "silent_s": 1.0}, 5, "rank 2 does not run", id="stopped"),
        pytest.param({}, 11, "rank 2 stands still", id="stuck"),
    ],
)
def test_a_long_pause_of_one_that_worked_keeps_nobody_unnamed(
    running: Any, seen: dict[str, Any], named_s: int, says: str
) -> None:
    """It is acted on all the same, and who looks is to know it before."""
    pauses(running, **MOVING)
    running.go(30)
    goes_on(running)
    running.go(5)
    pauses(running, **MOVING)
    assert running.go(30) == [], "known"
    goes_on(running)
    running.go(5)
    pauses(running, **seen)
    (said,) = running.go(named_s)
    assert (said.kind, said.weight) == (Kind.STANDSTILL, Weight.REPORT)
    assert says in said.summary


@pytest.mark.parametrize(
    ("process", "acted_s"), [("T", 5), ("S", 10)], ids=["stopped", "its pulse stands"]
)
def test_in_a_job_that_pauses_a_stopped_process_is_acted_on_no_later(
    running: Any, process: str, acted_s: int
) -> None:
    """A call in a pause may keep the pulse from going, and stops no process."""
    pauses(running, **MOVING)
    running.go(30)
    goes_on(running)
    running.go(5)
    pauses(running, process=process, silent_s=1.0)
    assert all(each.weight is Weight.REPORT for each in running.go(acted_s - 0.5))
    assert [each.kind for each in running.go(2.5)][-1:] == [Kind.HANG]


def test_in_a_job_that_pauses_a_short_stop_is_not_told(running: Any) -> None:
    """Four seconds where there were pauses, in place of two: a call in one may let no pulse go."""
    pauses(running, **MOVING)
    running.go(30)
    goes_on(running)
    running.go(5)
    pauses(running, process="S", silent_s=1.0)
    assert running.go(3.5) == []


def test_a_wait_of_a_length_that_ended_by_itself_before_is_not_told_again(running: Any) -> None:
    for times in range(2):
        pauses(running)
        assert bool(running.go(13)) is (times == 0)
        goes_on(running)
        running.go(5)


def test_a_stop_of_a_length_that_ended_by_itself_before_is_not_acted_on(running: Any) -> None:
    """As of a debugger that looks at a rank now and then."""
    for stood_s in (4.5, 6.5):
        pauses(running, process="T", silent_s=1.0)
        assert all(each.weight is Weight.REPORT for each in running.go(stood_s))
        goes_on(running)
        running.go(5)


def test_a_wait_at_the_end_of_a_known_pause_is_not_told_again(running: Any) -> None:
    """As of who evaluates, and then waits for a server."""
    for times in range(3):
        pauses(running, **MOVING)
        said = running.go(20)
        pauses(running)
        said += running.go(4)
        assert bool(said) is (times == 0)
        goes_on(running)
        running.go(5)


def test_a_stop_of_a_length_that_ended_by_itself_before_is_not_told_again(running: Any) -> None:
    for times in (1, 2):
        running.running, began_s = False, running.now
        running.alter = lambda seen, at_s=began_s: (
            stopped(seen, running.now - at_s) if seen.rank == 3 else seen
        )
        said = running.go(3.5)
        goes_on(running)
        said += running.go(5)
        kinds = [each.kind for each in said]
        assert kinds == ([Kind.STANDSTILL, Kind.GOES_ON] if times == 1 else [])
