"""What a simulated life came to: the books are the world's, and a change is seen in them."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.lab.simulator import outcomes
from holdfast.lab.simulator.books import Outcome
from holdfast.lab.simulator.close_books import close
from holdfast.lab.simulator.rng_streams import Streams
from holdfast.lab.simulator.scenario import Fault, Scenario, SimJob
from holdfast.lab.simulator.simulate import live, play, run_many

LOST = ("kernel-fault", 0, 0.5)
NAMES = st.text("abc -0", max_size=4)


def _life(*faults: Fault, store_every: int = 0, nodes: int = 3) -> Outcome:
    jobs = (SimJob("job-0", 0.1, 2, 1, 0, 40, store_every),)
    life = live(Scenario(seed=5, nodes=nodes, racks=1, jobs=jobs, faults=tuple(faults)))
    assert life.failure is None
    return life.outcome


def test_a_quiet_life_repeats_nothing_and_evicts_nobody() -> None:
    outcome = _life()
    (job,) = outcome.jobs
    assert (job.ended, job.attempts, job.trained, job.repeated) == ("Succeeded", 1, 40, 0)
    assert job.idle_s < 2
    assert 40 < job.held_s < 46  # two nodes for 40 steps of half a second
    assert (outcome.evicted, outcome.innocent) == (0, 0)


def test_snapshots_in_memory_save_all_but_the_step_under_way() -> None:
    (job,) = _life(Fault(10.0, "kill-rank", 0, 0.2)).jobs
    assert (job.ended, job.attempts, job.repeated) == ("Succeeded", 2, 0)


def test_what_nobody_had_kept_is_unavoidable() -> None:
    outcome = _life(Fault(10.0, "lose-node", 0, 0.2), store_every=5)
    (job,) = outcome.jobs
    assert job.attempts == 2
    assert 0 < job.repeated == job.unavoidable < 5
    assert outcome.innocent == 0


def test_an_eviction_is_counted_and_a_guilty_node_is_no_innocent() -> None:
    outcome = _life(Fault(10.0, "kernel-fault", 0, 0.2))
    assert (outcome.evicted, outcome.innocent) == (1, 0)


def test_an_eviction_without_a_cause_in_the_world_is_of_an_innocent() -> None:
    world = play(Scenario(seed=5, nodes=3, racks=1, jobs=(), faults=(Fault(1.0, *LOST),)))
    assert close(world).innocent == 0
    world.guilty.clear()
    assert close(world).innocent == 1


@given(st.integers(0, 9), NAMES, NAMES, st.integers(0, 5))
def test_draws_of_one_stream_move_no_other(seed: int, one: str, other: str, draws: int) -> None:
    alone, beside = Streams(seed), Streams(seed)
    for _ in range(draws):
        beside.of(one, "waits").random()
    same = alone.of(other, "waits").random() == beside.of(other, "waits").random()
    assert same or one == other


def test_recorded_outcomes_are_read_as_written_and_compared_seed_by_seed(tmp_path: Path) -> None:
    lives = run_many(range(6), processes=1)
    assert not any(life.failure for life in lives)
    before = [life.outcome for life in lives]
    outcomes.write(tmp_path / "before.xz", reversed(before))
    assert outcomes.read(tmp_path / "before.xz") == before
    assert outcomes.differing(before, before) == []
    after = [replace(each, evicted=each.evicted + (each.seed == 4)) for each in before]
    assert [one.seed for one, _ in outcomes.differing(before, after)] == [4]
    assert "1 of 6 seeds came to something else: 4" in outcomes.table(before, after)
