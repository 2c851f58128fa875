"""The simulated cases: a cause stays until it is gone, books count it, and any driver can play."""

from random import Random

import pytest
from msgspec.structs import replace

from holdfast.diagnostics.registry import only
from holdfast.driver.watch import standstill_limits
from holdfast.lab.simulator.cases import detectors
from holdfast.lab.simulator.cases.books import CaseBooks, Life
from holdfast.lab.simulator.cases.cause import Cause
from holdfast.lab.simulator.cases.causes_code import SAVED_EVERY, PoisonedPoint
from holdfast.lab.simulator.cases.drawing import CAUSES, Case, draw
from holdfast.lab.simulator.cases.play import TESTED, Play, play
from holdfast.lab.simulator.cases.trouble import SETTLED_S, Attempt, Manner, Trouble
from holdfast.protocol.messages import DiagnosticOrder

OF_NODES = [name for name, cause in CAUSES.items() if cause.places]
NODES = ("n0", "n1", "n2", "n3")
FOUR = Case(
    name="passing",
    seed=0,
    nodes=4,
    ranks_per_node=2,
    standbys=1,
    free=1,
    memory_every=5,
    store_every=120,
)


def test_a_place_that_comes_again_is_given_as_much_longer_as_by_the_driver() -> None:
    there = standstill_limits.TIMES, standstill_limits.LONGEST_S
    assert there == (detectors.FACTOR, detectors.LONGEST_S)


def _played(case: Case) -> tuple[Play, Life]:
    with only(*TESTED):
        one = Play(case)
        return one, one.life()


@pytest.mark.parametrize("name", OF_NODES)
def test_what_is_in_nodes_comes_again_until_the_job_does_without_them(name: str) -> None:
    cause = replace(FOUR, name=name).cause
    cause.begins(NODES)
    for _ in range(5):
        assert cause.next(Attempt(nodes=NODES, start=0), 0) is not None
    others = tuple(f"other-{k}" if each in cause.guilty else each for k, each in enumerate(NODES))
    assert cause.next(Attempt(nodes=others, start=0), 0) is None


def test_a_bad_version_dies_until_the_one_before_runs() -> None:
    cause = replace(FOUR, name="bad-version").cause
    assert cause.next(Attempt(nodes=NODES, start=0, version=2), 0) is not None
    assert cause.next(Attempt(nodes=NODES, start=0, version=1), 0) is None


def test_a_poisoned_point_kills_at_the_start_and_older_ones_do_not() -> None:
    cause = PoisonedPoint(Random(1))
    first = cause.next(Attempt(nodes=NODES, start=0), 0)
    assert first is not None
    assert not first.at_start
    assert cause.since is not None
    again = cause.next(Attempt(nodes=NODES, start=cause.since), cause.since)
    assert again is not None
    assert again.at_start
    assert cause.next(Attempt(nodes=NODES, start=cause.since - 1), cause.since - 1) is None


@pytest.mark.parametrize("memory_every", [1, 5, 20])
@pytest.mark.parametrize("seed", range(4))
def test_a_poisoned_step_is_given_up_with_both_its_copies(memory_every: int, seed: int) -> None:
    case = replace(FOUR, name="poisoned-step", memory_every=memory_every, seed=seed)
    one, life = _played(case)
    assert (life.ended, life.named, life.moves) == ("running", "point", 0)
    raises = one.world.cause.dies is Manner.EXCEPTION  # which is no sign the first time
    assert life.faults == 3 + raises, "the first one, and at a start from each copy"
    died = {fact.about.site.step for fact in one.world.driver.state.jobs["job"].facts if fact.fault}
    assert [step % SAVED_EVERY for step in died] == [0]
    assert life.repeated <= memory_every, "the step before is good, and is in memory"


@pytest.mark.parametrize("name", CAUSES)
def test_a_life_comes_to_an_end_and_the_same_seed_to_the_same(name: str) -> None:
    one = play(name, 3)
    assert one.ended in ("running", "failed", "looping")
    assert one.faults > 0
    assert play(name, 3) == one


class Nothing(Cause):
    """Nothing goes wrong."""

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        return None


def test_a_life_in_which_nothing_goes_wrong_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CAUSES, "passing", Nothing)
    one, life = _played(FOUR)
    assert (life.ended, life.faults, life.moves, life.lost_s) == ("running", 0, 0, 0.0)
    assert one.world.books.best == SETTLED_S


class HangsOnce(Cause):
    """The second node hangs, once."""

    def next(self, attempt: Attempt, step: int) -> Trouble | None:
        if self.count:
            return None
        return Trouble(after_s=50.0, manner=Manner.HANG, node=attempt.nodes[1])


def test_a_hang_is_lost_from_its_begin_and_its_steps_are_done_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(CAUSES, "passing", HangsOnce)
    case = replace(FOUR, memory_every=20)
    one, life = _played(case)
    assert life.repeated == 10  # the newest snapshot is of step 40
    assert 15.0 < life.lost_s - life.repeated < 25.0  # found after 15 s, and 4 s to start
    assert len(one.world.driver.state.incidents) == 1


def test_a_pause_of_the_job_s_own_is_no_time_lost() -> None:
    _, life = _played(replace(draw("evaluation", 0), nodes=2))
    assert life.faults > 1
    assert life.lost_s == 0.0


def test_a_person_s_edit_makes_a_second_version_and_the_one_before_comes_back() -> None:
    one, _ = _played(replace(FOUR, name="bad-version"))
    training, job = one.world.training, one.world.driver.state.jobs["job"]
    assert [each.number for each in job.versions] == [1, 2, 3]
    assert job.versions[2].plan == job.versions[0].plan
    assert job.versions[2].by == "version 1"
    assert training is not None
    assert training.version == 1
    assert {attempt.version for attempt in job.history} == {1, 2, 3}


def test_the_false_alarms_of_exams_are_rare_and_those_of_the_guilty_are_not() -> None:
    one, _ = _played(replace(FOUR, name="bad-memory", seed=1))
    (guilty,) = one.world.cause.guilty
    rates = {node: _failing(one, node) for node in NODES}
    assert rates.pop(guilty) > 0.15
    assert all(rate < 0.05 for rate in rates.values())


def _failing(one: Play, node: str) -> float:
    orders = [DiagnosticOrder(id=f"exam-{k}", test="compute") for k in range(400)]
    return sum(one.world.test(order, node).ok is False for order in orders) / len(orders)


# ---------------------------------------------------------------- books


def _books(name: str, *, nodes: int = 4) -> CaseBooks:
    case = replace(FOUR, name=name, nodes=nodes)
    books = CaseBooks(case, case.cause)
    books.begins(NODES[:nodes], 0, 100.0)
    return books


def test_books_tell_the_innocent_from_the_guilty() -> None:
    books = _books("lemon")
    (guilty,) = books.cause.guilty
    innocent = next(node for node in NODES if node != guilty)
    left = tuple(f"spare-{k}" if n in (guilty, innocent) else n for k, n in enumerate(NODES))
    books.reached(50, 150.0)
    books.begins(left, 40, 160.0)
    books.reached(90, 210.0)
    books.out += [innocent]
    life = books.close(failed=False, cured=True, named="node", now=210.0)
    assert (life.moves, life.innocent_moves) == (2, 1)
    assert (life.quarantined, life.innocent_quarantined) == (1, 1)
    assert (life.repeated, life.lost_s) == (10, 20.0)
    assert life.right
    assert life.named_right


@pytest.mark.parametrize(
    ("name", "nodes", "failed", "right"),
    [
        ("passing", 4, True, False),
        ("user-always", 4, True, True),
        ("user-always", 4, False, False),
        ("lemon", 4, True, False),  # there are two more nodes
        ("lemon-hourly", 4, True, False),
        ("evaluation", 4, True, False),
    ],
)
def test_who_is_rightly_given_up(name: str, nodes: int, failed: bool, right: bool) -> None:
    life = _books(name, nodes=nodes).close(failed=failed, cured=not failed, named="", now=200.0)
    assert life.right is right


def test_without_another_node_a_lemon_that_stops_all_is_rightly_given_up() -> None:
    case = replace(FOUR, name="lemon", standbys=0, free=0)
    books = CaseBooks(case, case.cause)
    books.begins(NODES, 0, 0.0)
    assert books.close(failed=True, cured=False, named="", now=200.0).right


def test_who_gets_nowhere_is_looping_and_who_gets_on_runs() -> None:
    for best, ended in ((10, "looping"), (1_000, "running")):
        books = _books("lemon-hourly")
        books.reached(5, 105.0)
        books.reached(best, 1_100.0)
        assert books.close(failed=False, cured=False, named="", now=1_100.0).ended == ended
