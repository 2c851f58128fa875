"""Ranks that count from their own start: where an attempt begins again, and when it is further."""

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.driver.core.events import FasterSeen, StepsRepeated
from holdfast.driver.watch.jobs import FASTER
from holdfast.protocol.messages import Observed, RankStatus

A_BEAT = 4
"""Steps that it may make until a heartbeat has told of one."""


class Script:
    """A cluster whose script saves every `every` of its own steps, 0: never, and loads the last."""

    def __init__(self, cluster: Any, every: int) -> None:
        self.world = cluster(2)
        self.every = every
        self.world.alter = self._alter
        self.relative = True
        self.loads = True
        self.told: list[Any] = []
        take = self.world.take
        self.world.take = lambda events: take(self._kept(list(events)))

    def _alter(self, seen: Any) -> Any:
        saves = self.every and seen.rank == 0  # as most scripts do it
        unsaved = seen.step % self.every if saves else seen.step
        loaded = {"restore": 0.5} if self.every and self.loads and seen.step < A_BEAT else {}
        return replace(seen, partial=("step numbers",), unsaved=unsaved, starts_s=loaded)

    def _kept(self, events: list[Any]) -> list[Any]:
        self.told += [(self.world.now, each) for each in events if isinstance(each, StepsRepeated)]
        return events

    def go(self, steps: int) -> None:
        self.world.go(steps * self.world.step_s + 0.5)

    def dies(self, *, unheard: int = 0) -> int:
        """Its steps at the end; the next attempt counts from its own start again. `unheard`: those
        that it made after the last heartbeat, as the rings tell its executor."""
        self.world.running = False
        self.world.go(1)
        if unheard:
            self.world.step = self.heard() + unheard
            self.die(int(self.world.step))
        done, self.world.step = self.world.step, 0
        self.world.epoch += 1
        self.world.expect()
        self.world.running = True
        return int(done)

    def heard(self) -> int:
        """How far the heartbeats tell that it is."""
        return int(self.world.watch._context.jobs["job"].pace.step)

    def die(self, *steps: int) -> None:
        """Ranks of the first nodes do, the others' at the last of these steps."""
        for at, node in enumerate(self.world.names):
            self.world.watch.observed(self.death(steps[min(at, len(steps) - 1)], node))

    def death(self, step: int, node: str) -> Observed:
        saved = 0 if self.relative else None
        status = RankStatus(rank=0, state="exited", signal=9, saved=saved, all_step=step, order=1)
        return Observed(
            node=node,
            incarnation="a",
            sequence=1,
            generation=1,
            epoch=self.world.epoch,
            job="job",
            ranks=(status,),
        )

    def until_further(self, times: int) -> int:
        """The step at which it was further than ever so often."""
        for _ in range(200):
            if self.further >= times:
                return int(self.world.step)
            self.world.go(0.1)
        raise AssertionError("it never went further")

    @property
    def further(self) -> int:
        return len(self.world.seen)


@pytest.mark.parametrize("every", [0, 10])
def test_an_attempt_is_back_when_it_has_passed_the_furthest_step(cluster: Any, every: int) -> None:
    script = Script(cluster, every)
    script.go(36)
    done = script.dies()
    saved = done // every * every if every else 0
    assert done - saved > 2 * A_BEAT
    assert (script.further, script.told) == (1, [])
    script.go(2)
    ((_, told),) = script.told
    assert (told.since, told.before) == (saved, done)
    at = script.until_further(2)
    assert done - saved < at <= done - saved + A_BEAT
    assert len(script.told) == 1


def test_a_new_job_under_an_old_name_inherits_no_steps(cluster: Any) -> None:
    script = Script(cluster, 0)
    script.go(40)
    expect = script.world.watch.expect
    script.world.watch.expect = lambda expected: expect(replace(expected, number=2))
    script.dies()
    script.go(5)
    assert script.told == [], "nothing is done again"
    assert script.further == 2, "its first step is the furthest of its own"


def test_the_furthest_of_all_attempts_counts(cluster: Any) -> None:
    script = Script(cluster, 0)
    script.go(40)
    done = script.dies()
    script.go(5)
    script.dies()
    assert done < script.until_further(2) <= done + A_BEAT
    assert [each.before for _, each in script.told] == [done, done]


def test_what_each_attempt_saved_adds_up(cluster: Any) -> None:
    script = Script(cluster, 10)
    script.go(25)
    script.dies()
    script.go(25)
    script.dies()
    script.go(3)
    assert [each.since for _, each in script.told] == [20, 40]


def test_a_script_that_saves_and_loads_nothing_began_at_the_beginning(cluster: Any) -> None:
    script = Script(cluster, 10)
    script.loads = False
    script.go(36)
    done = script.dies()
    script.go(2)
    ((_, told),) = script.told
    assert (told.since, told.before) == (0, done)
    assert done < script.until_further(2) <= done + A_BEAT
    again = script.dies()
    script.loads = True
    script.go(3)
    assert script.told[-1][1].since == again // 10 * 10, "where the last that saved was"


def test_what_an_attempt_saved_so_far_is_told_to_who_asks(cluster: Any) -> None:
    script = Script(cluster, 10)
    script.go(25)
    assert script.world.watch.saved_steps("job") == 20
    script.dies()
    assert script.world.watch.saved_steps("job") == 0
    script.world.alter = lambda seen: seen
    script.go(25)
    assert script.world.watch.saved_steps("job") == 0, "its steps are numbered"


def test_steps_that_no_heartbeat_told_of_are_lost_too(cluster: Any) -> None:
    script = Script(cluster, 0)
    script.go(30)
    done = script.dies(unheard=4)
    at = script.until_further(2)
    assert [each.before for _, each in script.told] == [done]
    assert done < at <= done + A_BEAT


def test_the_step_of_ranks_that_number_theirs_is_that_of_their_rings(cluster: Any) -> None:
    script = Script(cluster, 0)
    script.world.alter, script.relative = (lambda seen: seen), False
    script.go(30)
    heard = script.heard()
    script.die(heard + 4)
    assert script.world.watch.completed_step("job") == heard + 4
    script.world.epoch += 1
    script.die(99)
    assert script.world.watch.completed_step("job") == heard + 4, "of an epoch that is not known"


@pytest.mark.parametrize("partial", [(), ("step numbers",)])
def test_a_step_counts_that_all_nodes_have_not_the_one_that_died_first(
    cluster: Any, partial: tuple[str, ...]
) -> None:
    """Ranks that do not wait for each other are at different steps."""
    script = Script(cluster, 0)
    slow = {2, 3}
    script.world.alter = lambda seen: replace(
        seen, partial=partial, step=seen.step // 2 if seen.rank in slow else seen.step
    )
    script.go(40)
    fast, heard = script.world.step, script.heard()
    assert heard <= fast // 2
    first, second = script.world.names
    script.relative = bool(partial)
    script.world.watch.observed(script.death(fast, first))
    (job,) = script.world.watch._context.jobs.values()
    assert heard <= job.completed_step() <= heard + A_BEAT, "what the pace of the slow one makes"
    script.world.watch.observed(script.death(heard + 1, second))
    assert job.completed_step() == heard + 1


def test_nodes_that_say_nothing_more_went_on_at_their_pace_until_the_first_death(
    cluster: Any,
) -> None:
    script = Script(cluster, 0)
    script.world.alter, script.relative = (lambda seen: seen), False
    script.go(30)
    script.world.running = False
    heard = script.heard()
    script.world.silent = set(script.world.names)
    script.world.go(1.1)
    script.world.watch.observed(script.death(heard + 3, script.world.names[0]))
    assert script.world.watch.completed_step("job") == heard + 3, "no further than who died"
    script.world.go(60)
    script.world.watch.observed(script.death(heard + 99, script.world.names[0]))
    assert script.world.watch.completed_step("job") == heard + 3


@pytest.mark.parametrize("own_numbers", [True, False])
def test_the_last_rank_says_when_an_attempt_had_started(cluster: Any, own_numbers: bool) -> None:
    """Rank 3 is the last of four, and told of its start for as long as that is young."""
    world = cluster(2)
    began = world.now

    def started(seen: Any) -> Any:
        age_s = world.now - began + (0.3 if seen.rank == 3 else 0.6)
        told = {"group": age_s + 0.1, "step": age_s} if age_s < 2.0 else {}
        return replace(seen, partial=() if own_numbers else ("step numbers",), starts_s=told)

    world.alter = started
    world.go(3.0)
    (first,) = world.seen
    assert first.starts_s == pytest.approx({"group": 0.5, "step": 0.4})
    world.epoch += 1
    world.step, world.alter = 0, lambda seen: replace(seen, partial=("step numbers",))
    world.expect()
    world.go(30.0)
    assert world.seen[-1].epoch == 2
    assert world.seen[-1].starts_s == {}, "the start of another attempt is no word of this one"


def test_a_start_is_known_where_the_first_new_step_is_long_after_it(cluster: Any) -> None:
    world = cluster(1, best_step=60)
    began = world.now
    world.alter = lambda seen: replace(
        seen, starts_s={"step": world.now - began} if world.now < began + 1 else {}
    )
    world.go(20.0)
    (first,) = world.seen
    assert first.step > 60
    assert first.starts_s["step"] > 10.0


def test_it_is_told_when_steps_are_faster_by_more_than_a_little_and_seldom(cluster: Any) -> None:
    world, faster = cluster(2), []
    take = world.take

    def kept(events: Any) -> None:
        events = list(events)
        faster.extend(each.best_step_s for each in events if isinstance(each, FasterSeen))
        take(events)

    world.take = kept
    world.step_s = 0.8
    world.go(60)
    assert faster == pytest.approx([1.0], rel=0.25)  # a heartbeat each 0.5 s
    world.step_s = 0.2
    world.go(120)
    assert faster[-1] == pytest.approx(0.2, rel=0.1)
    assert all(after < FASTER * before for before, after in pairwise(faster))
    world.step_s = 0.8
    told = len(faster)
    world.go(60)
    assert len(faster) == told, "slower is not faster"


def test_what_an_earlier_driver_told_is_the_best_until_it_is_beaten(cluster: Any) -> None:
    world = cluster(2)
    world.epoch += 1
    world.watch.forget("job")
    world.watch.keep(set())
    world.expect(best_step_s=0.05)
    world.go(30)
    assert world.watch.progress("job").best_step_s == 0.05


def test_the_first_steps_of_a_script_that_tells_its_own_later_are_not_beyond_all_before(
    cluster: Any,
) -> None:
    """`optimizer.step()` comes before `telemetry.step(…)`: a heartbeat may be between the two."""
    script = Script(cluster, 0)
    between = script.world.alter
    script.world.alter, script.relative = (lambda seen: seen), False
    script.go(30)
    done, before = script.dies(), script.further
    script.world.expect(best_step=done)
    script.world.alter = between
    script.go(2)
    assert script.further == before, "what is done again is no step beyond all before"
    script.world.alter = lambda seen: seen
    assert script.until_further(before + 1) > done
