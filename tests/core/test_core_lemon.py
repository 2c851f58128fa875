"""A node on which ranks die again and again and whose tests find nothing: its place moves."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Distrust
from holdfast.driver.core.job.move_on_suspicion import may_move
from holdfast.driver.core.state.fact import Bearing
from holdfast.driver.core.state.model import Phase
from holdfast.driver.core.turn import Turn
from holdfast.lab.simulator.scenario import Fault, Scenario, SimJob
from holdfast.lab.simulator.simulate import play

STORING = e.Task(command=("train",), workdir=".", store_url="file:///s", store_interval_steps=5)


def crash(life, step: int) -> None:
    """Rank 2, on the second place, dies at a step of its own; all answer until it runs again."""
    life.dies(2, signal=11, own_step=step)
    for _ in range(6):
        if life.phase in (Phase.RUNNING, Phase.FAILED):
            return
        life.answer()
        if life.job.exam is not None:
            life.tests_end()


@pytest.mark.parametrize("more", [{"standbys": 1}, {"spare": 1, "task": STORING}])
def test_once_it_stands_out_it_is_tested_and_then_its_place_moves(training, more: dict) -> None:
    life = training(**more)
    for step in range(2, 5):
        assert life.acquittals("n1") == []
        crash(life, step)
        assert life.job.places == ("n0", "n1")
        life.progress(step)
    assert len(life.acquittals("n1")) == 1
    crash(life, 9)
    assert (life.phase, life.job.places) == (Phase.RUNNING, ("n0", "n2"))
    assert life.incident.rung == 2
    assert (life.evicted, life.ordered(Distrust)) == ([], []), "a move is no conviction"
    bearings = {fact.bearing for fact in life.state.nodes["n1"].record.facts}
    assert bearings == {Bearing.CONTEXT, Bearing.ACCUSES, Bearing.ACQUITS}, "nor is it noted as one"
    assert any("try its place on another node than n1" in why for why in life.whys)


def test_the_last_step_is_saved_before_the_place_moves(training) -> None:
    life = training(standbys=1, task=STORING)
    for step in range(2, 4):
        crash(life, step)
        life.progress(step)
    old = life.job.epoch
    life.dies(2, signal=11, own_step=7)
    life.answer(snapshots=[(7, old)], empty=["n2"])
    assert life.job.save is not None
    assert life.job.places == ("n0", "n1")
    life.answer(snapshots=[(7, old)], stored=[(7, old)], empty=["n2"])
    life.answer(stored=[(7, old)], snapshots=[(7, old)], empty=["n2"])
    assert life.job.places == ("n0", "n2")
    assert (life.job.restore.step, life.job.restore.where) == (7, "store")


def crash_while_the_store_fails(life, step: int) -> None:
    """Rank 2 dies; that step is in the memory of the two nodes alone, its own part on each."""
    old = life.job.epoch
    life.dies(2, signal=11, own_step=step)
    for _ in range(20):
        if life.phase not in (Phase.SUSPENDING, Phase.DIAGNOSING):
            return
        life.answer(snapshots=[(step, old)], empty=["n2"], store_error="it hangs")
        if life.job.exam is not None:
            life.tests_end()
        life.wait()


def test_no_step_is_risked_for_a_guess_unless_it_comes_again(training) -> None:
    life = training(standbys=1, task=STORING)
    for step in range(2, 4):
        crash(life, step)
        life.progress(step)
    crash_while_the_store_fails(life, 90)
    assert any("a warm standby takes its place" in why for why in life.whys)
    assert any("n1 cannot be left now: job stands still for its tests" in why for why in life.whys)
    assert life.job.places == ("n0", "n1")
    assert (life.job.restore.step, life.job.restore.where) == (90, "memory")
    life.progress(91)
    crash_while_the_store_fails(life, 120)
    assert life.job.places == ("n0", "n2"), "it may be what keeps steps from the store"


def again(life) -> None:
    """Rank 2 dies at once, and nobody sees it get on."""
    life.dies(2, signal=11)
    for _ in range(6):
        if life.phase in (Phase.RUNNING, Phase.FAILED):
            return
        life.answer()
        if life.job.exam is not None:
            life.tests_end()


def test_without_another_node_it_is_given_up_only_after_its_node_was_tested(training) -> None:
    life = training(nodes=3)
    rungs = []
    while life.phase is not Phase.FAILED:
        again(life)
        rungs.append(life.incident.rung)
    assert rungs == [1, 1, 3, 3, 6]
    assert "its node passed its tests" in life.job.failure.reason


def test_giving_up_needs_another_node_tried_first(training) -> None:
    life = training(nodes=3, spare=1)
    while life.phase is not Phase.FAILED:
        again(life)
    assert life.moved == ["n1"]
    assert life.evicted == []


def test_a_node_that_a_place_moved_off_is_the_last_choice_and_no_place_to_move_to(training) -> None:
    life = training(standbys=1)
    for step in range(2, 8):
        crash(life, step)
        life.progress(step)
    life.do(e.NodeReleased(node="n1"))
    assert life.job.standbys == ("n1",), "better than none"
    turn = Turn(life.state, life.now, life.policy)
    assert not may_move(turn, life.job, "n2")
    life.node("n3")
    assert may_move(Turn(life.state, life.now, life.policy), life.job, "n2")
    life.answer()
    life.lose("n2")
    assert life.job.places == ("n0", "n3")


def test_others_may_have_at_once_what_a_place_moved_off(training) -> None:
    life = training(nodes=2, standbys=1)
    for step in range(2, 8):
        crash(life, step)
        life.progress(step)
    life.do(e.StopRequested(job="job"))
    life.do(e.NodeReleased(node="n1"))
    life.submit("other", nodes=1, ranks_per_node=1)
    assert life.state.jobs["other"].nodes == ("n1",)


@pytest.mark.parametrize("after", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("standbys", [0, 1])
def test_a_job_outlives_a_lemon_in_a_simulated_cluster(after: float, standbys: int) -> None:
    jobs = (SimJob("job-0", 0.1, 2, 1, standbys, 80, 5),)
    world = play(Scenario(3, 4, 1, jobs, (Fault(2.0, "lemon", 1, after),)))
    job = world.driver.state.jobs["job-0"]
    assert job.phase is Phase.SUCCEEDED, job.failure
    effects = [effect for entry in world.driver.journal for effect in entry.effects]
    assert not [effect for effect in effects if isinstance(effect, Distrust)]
    how = "a warm standby takes its place" if standbys else "try its place on another node"
    assert any(how in entry.why for entry in world.driver.journal)


def refuses(life, *nodes: str) -> None:
    """The ranks of these nodes cannot read the stored step that all start from."""
    job = life.job
    for node in nodes:
        rank = job.places.index(node) * job.plan.ranks_per_node
        life.dies(rank, exception="CheckpointRefused", judged=False)
    life.wait(until_s=life.now + life.policy.gather_s)


def starts_from(life, step: int, epoch: int) -> None:
    for _ in range(6):
        if life.phase in (Phase.RUNNING, Phase.FAILED):
            return
        life.answer(stored=[(step, epoch)])
        if life.job.exam is not None:
            life.tests_end()


@pytest.mark.parametrize("where", ["standbys", "spare"])
def test_where_one_node_alone_cannot_read_the_checkpoint_its_place_moves_before_the_end(
    training, where: str
) -> None:
    life = training(nodes=3, task=STORING, **{where: 1})
    first = life.job.epoch
    life.stores(80)
    for _ in range(30):
        refuses(life, "n1")
        starts_from(life, 80, first)
        if "n1" not in life.job.places:
            break
    assert (life.phase, life.job.places) == (Phase.RUNNING, ("n0", "n3", "n2"))
    assert (life.job.restore.step, life.job.restore.where) == (80, "store")
    assert any("try its place on another node than n1" in why for why in life.whys)
    assert (life.evicted, life.ordered(Distrust)) == ([], [])
    assert life.blamed("n1") == []


def test_what_several_nodes_cannot_read_is_no_nodes(training) -> None:
    life = training(nodes=3, task=STORING, standbys=1)
    first = life.job.epoch
    life.stores(80)
    for _ in range(30):
        refuses(life, "n1", "n2")
        starts_from(life, 80, first)
        if life.phase is Phase.FAILED:
            break
    assert life.phase is Phase.FAILED
    assert life.moved == []


def test_what_the_next_node_cannot_read_either_ends_the_job(training) -> None:
    life = training(nodes=3, task=STORING, standbys=1)
    first = life.job.epoch
    life.stores(80)
    for _ in range(30):
        refuses(life, life.job.places[1])
        starts_from(life, 80, first)
        if life.phase is Phase.FAILED:
            break
    assert life.phase is Phase.FAILED
    assert life.moved == ["n1"]
    assert life.evicted == []
