"""Jobs that stand still: who is named, when, and how gravely; and progress that is told."""

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.driver.core.faults.fault import fault_of
from holdfast.protocol.faults import Blame, Kind, Weight


@pytest.fixture
def running(cluster: Any) -> Any:
    """Two nodes, four ranks, ten seconds of steps of .2 s."""
    two = cluster(2)
    assert two.go(10) == []
    return two


def acted(found: Any) -> list[Any]:
    """Those that lead to something."""
    return [each for each in found if each.weight is not Weight.REPORT]


def hang(cluster: Any, rank: int, **more: Any) -> None:
    """`rank` does not enter the next collective; all others wait for it in there."""
    cluster.running = False

    def alter(seen: Any) -> Any:
        if seen.rank == rank:
            return replace(seen, **more)
        (group,) = seen.groups
        return replace(seen, groups=(replace(group, enqueued=group.enqueued + 1),))

    cluster.alter = alter


def test_the_rank_that_holds_all_up_is_named_after_the_floor(running: Any) -> None:
    hang(running, 2)
    assert running.go(4.5) == []
    (said,) = running.go(2)
    assert (said.kind, said.weight, said.rank) == (Kind.STANDSTILL, Weight.REPORT, 2)
    assert "rank 2 stands still" in said.summary
    assert said.summary.endswith(
        "if nothing moves for 15 s it is restarted (--stuck-max or telemetry.pause() gives it "
        "longer)"
    )
    assert "and 15.0 s are allowed" in said.evidence[0].text
    assert running.go(7.5) == []
    (finding,) = running.go(2)
    assert (finding.kind, finding.rank, finding.node) == (Kind.HANG, 2, "node-1")
    assert "where 15.0 s are allowed" in finding.evidence[0].text
    assert (finding.weight, fault_of(finding).blame) == (Weight.RESTART, Blame.UNKNOWN)
    assert (finding.job, finding.epoch, finding.step) == ("job", 1, running.step)
    assert "3 of 4 ranks wait in all_reduce" in finding.summary
    assert "no step since step" in finding.evidence[0].text
    assert running.go(20) == [], "once an epoch"


def test_who_has_skipped_what_its_peers_are_in_is_the_scripts(running: Any) -> None:
    """It waits in a group of its own, and all others in one that it has not come to."""
    running.running = False

    def alter(seen: Any) -> Any:
        (world,) = seen.groups
        half = replace(world, members=9, ranks=(0, 1), enqueued=1, done=0)
        if seen.rank == 0:
            return replace(seen, waiting=True, groups=(world, half))
        world = replace(world, enqueued=world.enqueued + 1)
        groups = (world, replace(half, enqueued=0)) if seen.rank == 1 else (world,)
        return replace(seen, waiting=True, groups=groups)

    running.alter = alter
    (finding,) = acted(running.go(20))
    assert (finding.kind, finding.rank) == (Kind.HANG, 0)
    assert fault_of(finding).blame is Blame.USER


def test_a_rank_that_only_does_not_come_is_nobodys_yet(running: Any) -> None:
    hang(running, 2)
    (finding,) = acted(running.go(20))
    assert fault_of(finding).blame is not Blame.USER


@pytest.mark.parametrize("partial", [(), ("step numbers",)])
def test_steps_that_are_counted_from_an_attempts_start_are_called_so(
    running: Any, partial: tuple[str, ...]
) -> None:
    hang(running, 2, partial=partial)
    (said,) = running.go(6.5)
    last = f"no step since step {running.step}{' of this attempt' if partial else ''} for "
    assert said.evidence[0].text.startswith(last)


def test_that_a_node_held_the_job_up_before_is_for_the_book_to_weigh(running: Any) -> None:
    hang(running, 2)
    running.go(18)
    running.alter, running.running, running.epoch = (lambda seen: seen), True, 2
    running.expect(best_step=running.step)
    assert running.go(10) == []
    hang(running, 3)
    (finding,) = acted(running.go(18))
    assert (finding.node, finding.weight, finding.epoch) == ("node-1", Weight.RESTART, 2)


def test_where_no_stack_is_to_be_had_who_uses_cpu_is_at_work(running: Any) -> None:
    spent = iter(range(10_000))

    def burning(seen: Any) -> Any:
        return replace(seen, cpu_s=0.5 * next(spent)) if seen.rank == 1 else seen

    running.alter = burning
    running.go(5)
    began = running.now
    running.running = False

    def alter(seen: Any) -> Any:
        (group,) = seen.groups
        if seen.rank == 1:
            return burning(seen)
        return replace(seen, groups=(replace(group, enqueued=group.enqueued + 1),))

    running.alter = alter
    (said,) = running.go(590)
    assert (said.kind, said.rank) == (Kind.STANDSTILL, 1)
    assert "rank 1 is at work: it uses CPU" in said.summary
    (finding,) = running.go(15)
    assert (finding.kind, finding.rank) == (Kind.HANG, 1)
    assert running.now - began > 600


def test_a_pause_that_ends_by_itself_is_learned(running: Any) -> None:
    hang(running, 0, cpu_s=0.0)
    assert running.go(4) == []
    running.alter, running.running = (lambda seen: seen), True
    assert running.go(5) == []
    hang(running, 0)
    assert running.go(7.5) == [], "twice the pause of four seconds, not the floor of five"
    assert [each.kind for each in running.go(3)] == [Kind.STANDSTILL]


def test_slow_steps_are_given_three_of_their_own(cluster: Any) -> None:
    slow = cluster(2)
    slow.step_s = 4.0
    assert slow.go(60) == []
    hang(slow, 0)
    assert slow.go(7.5) == [], "the last step was four seconds before"
    assert [each.kind for each in slow.go(10)] == [Kind.STANDSTILL, Kind.HANG]


def test_before_the_first_step_a_job_has_its_own_patience(cluster: Any) -> None:
    young = cluster(2, first_step_s=30.0)
    hang(young, 1)
    assert young.go(14) == []
    (said,) = young.go(15)
    assert (said.kind, said.rank, said.weight) == (Kind.STANDSTILL, 1, Weight.REPORT)
    assert said.summary.startswith(
        "job has made no step that is seen for 15 s: rank 1 stands still"
    )
    assert "without one for 30 s it is restarted (--first-step gives" in said.summary
    assert [(each.kind, each.rank) for each in young.go(3)] == [(Kind.HANG, 1)]


def test_how_long_a_job_prepares_is_no_pause_that_is_learned(cluster: Any) -> None:
    young = cluster(2)
    hang(young, 1)
    assert [each.kind for each in young.go(310)] == [Kind.STANDSTILL]
    young.alter, young.running = (lambda seen: seen), True
    assert [each.kind for each in young.go(5)] == [Kind.GOES_ON]
    hang(young, 1)
    assert [each.kind for each in young.go(18)] == [Kind.STANDSTILL, Kind.HANG]


@pytest.mark.parametrize(
    ("pulse_stands", "cpu_share", "loads_until_s", "found_after_s"),
    [
        pytest.param(True, 0.0, 0, 31, id="its process does not run"),
        pytest.param(False, 0.0, 0, 100, id="it waits for something"),
        pytest.param(True, 0.9, 0, 100, id="it works on something without letting its pulse go"),
        pytest.param(True, 0.0, 200, 100, id="it loads a library from a slow disk"),
        pytest.param(True, 0.0, 50, 81, id="the disk of its library stands still"),
    ],
)
def test_before_the_first_step_only_a_process_that_does_not_run_is_a_hang_soon(
    cluster: Any, pulse_stands: bool, cpu_share: float, loads_until_s: float, found_after_s: int
) -> None:
    young = cluster(2, first_step_s=100.0)
    hang(young, 1)
    entered, spent_s = young.alter, itertools.count(step=0.5 * cpu_share)
    over_s = young.now + loads_until_s

    def alter(seen: Any) -> Any:
        if seen.rank != 1:
            return entered(seen)
        silent_s = young.now if pulse_stands else 0.0
        moved_s = max(0.0, young.now - over_s) if loads_until_s else None
        return replace(seen, silent_s=silent_s, cpu_s=next(spent_s), moved_s=moved_s)

    young.alter = alter
    assert acted(young.go(found_after_s - 2)) == []
    assert [(each.kind, each.rank) for each in young.go(4)] == [(Kind.HANG, 1)]


def test_rings_that_move_without_steps_are_no_hang(running: Any) -> None:
    running.running = False
    count = iter(range(10**6))

    def evaluating(seen: Any) -> Any:
        (group,) = seen.groups
        at = group.enqueued + next(count)
        return replace(seen, groups=(replace(group, enqueued=at, done=at),))

    running.alter = evaluating
    assert running.go(60) == []


def test_where_nobody_can_be_named_it_says_so(running: Any) -> None:
    running.running = False
    running.alter = lambda seen: replace(
        seen, groups=(replace(seen.groups[0], enqueued=seen.groups[0].enqueued + 1),)
    )
    found = acted(running.go(30))
    assert [(each.kind, each.node, each.weight) for each in found] == [
        (Kind.NO_PROGRESS, None, Weight.RESTART)
    ]


def test_where_nobody_can_be_named_who_stands_elsewhere_than_all_others_is_told(
    running: Any,
) -> None:
    """As with torch 2.13 and older, where it is not seen which collective DDP calls."""
    began = running.now
    running.running = False
    running.alter = lambda seen: replace(
        seen,
        frame="load (data.py:7)" if seen.rank == 2 else "step (train.py:31)",
        frame_still_s=running.now - began,
        groups=(replace(seen.groups[0], enqueued=seen.groups[0].enqueued + 1),),
    )
    said, found = running.go(30)
    assert "rank 2 stands still in load (data.py:7)" in said.summary
    alone = "rank 2 stands in load (data.py:7), 3 others in step (train.py:31)"
    assert found.summary.endswith(f"nobody; {alone}")
    assert (found.rank, found.node) == (None, None)


@pytest.mark.parametrize("lines", [1, 2, 4])
def test_where_no_rank_stands_alone_none_is_told_to(running: Any, lines: int) -> None:
    began = running.now
    running.running = False
    running.alter = lambda seen: replace(
        seen,
        frame=f"step (train.py:{seen.rank % lines})",
        frame_still_s=running.now - began,
        groups=(replace(seen.groups[0], enqueued=seen.groups[0].enqueued + 1),),
    )
    said, found = running.go(30)
    assert " stands in " not in said.summary + found.summary


def test_a_rank_that_has_exited_is_its_executors_to_tell(running: Any) -> None:
    hang(running, 2, process="gone")
    assert running.go(60) == []


def test_ranks_without_a_ring_are_never_accused(cluster: Any) -> None:
    plain = cluster(2, first_step_s=5.0)
    plain.running = False
    plain.alter = lambda seen: replace(seen, hooks=False, groups=(), step=0)
    assert plain.go(60) == []


def test_a_stopped_rank_is_named_by_its_pulse_with_its_state_hidden(running: Any) -> None:
    running.running = False

    def alter(seen: Any) -> Any:
        entered = replace(seen.groups[0], enqueued=seen.groups[0].enqueued + 1)
        stopped = 60.0 if seen.rank == 3 else 0.0
        return replace(seen, groups=(entered,), silent_s=stopped, process="")

    running.alter = alter
    named, acted = running.go(8)
    assert [(each.kind, each.rank) for each in (named, acted)] == [
        (Kind.STANDSTILL, 3),
        (Kind.HANG, 3),
    ]
    assert named.stalled_s < 3.0
    assert acted.stalled_s > 5.0


def test_a_hang_on_a_node_whose_daemon_is_away_is_still_located(running: Any) -> None:
    hang(running, 2)
    running.silent = {"node-1"}
    found = [each for each in acted(running.go(10)) if each.kind is not Kind.DAEMON_LOST]
    assert [(each.kind, each.node) for each in found] == [(Kind.HANG, "node-1")]


# ---------------------------------------------------------------- progress


def test_progress_beyond_the_best_is_told_once_an_epoch(cluster: Any) -> None:
    two = cluster(2)
    two.go(5)
    assert [(seen.epoch, seen.step) for seen in two.seen] == [(1, 1)]
    best, two.step, two.epoch = two.step, two.step - 10, 2
    two.expect(best_step=best)
    two.go(5)
    assert [seen.epoch for seen in two.seen] == [1, 2]
    assert two.seen[1].step > best


def test_steps_counted_from_the_start_of_a_process_are_compared_with_none_before(
    cluster: Any,
) -> None:
    two = cluster(2)
    loaded = {"restore": 0.5}
    two.alter = lambda seen: replace(seen, partial=("step numbers",), starts_s=loaded)
    two.go(5)
    best, two.step, two.epoch = two.step, 0, 2
    two.expect(best_step=best)
    two.go(1)
    assert [(seen.epoch, seen.step, seen.before) for seen in two.seen][1] == (2, None, None)


def test_a_step_counts_once_all_ranks_have_completed_it(cluster: Any) -> None:
    two = cluster(2)
    two.go(2)
    two.alter = lambda seen: replace(seen, step=3) if seen.rank == 3 else seen
    two.go(1)
    assert two.watch.completed_step("job") == 3
    progress = two.watch.progress("job")
    assert (progress.step, len(progress.ranks)) == (3, 4)


def test_speed_is_measured_from_steps_and_tokens(running: Any) -> None:
    progress = running.watch.progress("job")
    assert progress.step_s == pytest.approx(0.2, rel=0.5)
    assert progress.tokens_per_s == pytest.approx(500, rel=0.5)


def test_what_an_older_epoch_says_does_not_count(cluster: Any) -> None:
    two = cluster(2)
    two.go(3)
    two.watch.expect(replace_epoch(two, 2))
    two.go(2)
    assert two.watch.completed_step("job") is None
    two.watch.forget("job")
    assert two.watch.progress("job") is None


def replace_epoch(cluster: Any, epoch: int) -> Any:
    return replace(cluster.watch._context.expected["job"], epoch=epoch)


def stepless(seen: Any) -> Any:
    """Collectives go on, and no step of an optimizer is seen."""
    return replace(seen, step=0)


def test_a_job_without_steps_goes_on_once_its_collectives_have_for_a_while(cluster: Any) -> None:
    one = cluster(2)
    one.alter = stepless
    one.go(4.0)
    assert one.seen == []
    one.go(6.0)
    assert [(seen.step, seen.stepless) for seen in one.seen] == [(None, True)]
    one.alter = lambda seen: seen
    one.go(1.0)
    assert [seen.stepless for seen in one.seen] == [True, False], "its first step is told as well"


def test_a_job_without_steps_that_stands_still_does_not_go_on(cluster: Any) -> None:
    one = cluster(2)
    one.alter = stepless
    one.go(2.0)
    one.running = False
    one.go(20.0)
    assert one.seen == []


def test_a_job_whose_steps_were_seen_before_is_judged_by_its_steps(cluster: Any) -> None:
    one = cluster(2, best_step=7)
    one.alter = stepless
    one.go(20.0)
    assert one.seen == []


NEVER_MET = {
    "of a job that came further before": ({"nodes": 2, "best_step": 40}, Weight.SUSPECT),
    "of a job that never came to a step": ({"nodes": 2}, Weight.RESTART),
    "of a job of one node": ({"nodes": 1, "best_step": 40}, Weight.RESTART),
}


@pytest.mark.parametrize("case", NEVER_MET)
def test_ranks_that_wait_before_their_first_step_and_nobody_is_named(
    cluster: Any, case: str
) -> None:
    how, weight = NEVER_MET[case]
    young = cluster(**how, first_step_s=30.0)
    young.running = False
    (found,) = [each for each in young.go(33) if each.weight is not Weight.REPORT]
    assert (found.kind, found.node, found.weight) == (Kind.NO_PROGRESS, None, weight)


def test_a_second_attempt_that_does_not_meet_is_looked_at_by_tests(cluster: Any) -> None:
    young = cluster(2, first_step_s=30.0)
    young.running = False
    young.go(33)
    young.epoch += 1
    young.expect()
    (found,) = [each for each in young.go(33) if each.weight is not Weight.REPORT]
    assert (found.kind, found.weight) == (Kind.NO_PROGRESS, Weight.SUSPECT)


def test_a_hang_that_was_told_is_taken_back_when_steps_go_on_and_the_next_is_told(
    running: Any,
) -> None:
    hang(running, 2)
    assert [each.kind for each in running.go(16)] == [Kind.STANDSTILL, Kind.HANG]
    running.alter, running.running = (lambda seen: seen), True
    assert [each.kind for each in running.go(5)] == [Kind.GOES_ON]
    hang(running, 2)
    (finding,) = acted(running.go(60))
    assert (finding.kind, finding.weight) == (Kind.HANG, Weight.RESTART), "it never was a hang"


def test_what_most_ranks_do_not_tell_is_no_standstill(running: Any) -> None:
    hang(running, 2)
    told = running.alter
    running.alter = lambda seen: replace(told(seen), hooks=seen.rank == 2)
    assert acted(running.go(40)) == []
