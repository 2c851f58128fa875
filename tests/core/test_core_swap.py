"""Deaths at one step of a script: the node and another one of the job change places first."""

from holdfast.driver.core import events as e
from holdfast.driver.core.state.fact import Act, Bearing
from holdfast.driver.core.state.model import Phase

STORING = e.Task(command=("train",), workdir=".", store_url="file:///s", store_interval_steps=5)


def crash(life, rank: int) -> None:
    """A rank dies at step 7, and all answer until the job runs again."""
    life.dies(rank, signal=11, own_step=7)
    for _ in range(6):
        if life.phase in (Phase.RUNNING, Phase.FAILED):
            return
        life.answer(stored=[(5, 1)])
        if life.job.exam is not None:
            life.tests_end()


def swapped(training, **more: object):
    """A job of four nodes whose third one has changed places with the fourth."""
    life = training(nodes=4, task=STORING, **more)
    life.stores(5)
    crash(life, 4)
    crash(life, 4)
    return life


def test_the_node_and_another_one_of_the_job_change_places(training) -> None:
    life = swapped(training, spare=1)
    assert life.job.places == ("n0", "n1", "n3", "n2")
    assert (life.phase, life.job.swaps, life.moved) == (Phase.RUNNING, "", [])
    bearings = {fact.bearing for fact in life.state.nodes["n2"].record.facts}
    assert bearings == {Bearing.CONTEXT}, "a question accuses nobody"


def test_what_stays_with_the_place_moves_nobody_and_is_the_scripts(training) -> None:
    life = swapped(training, spare=1)
    while life.phase is Phase.RUNNING:
        crash(life, 4)
    assert life.phase is Phase.FAILED
    assert [fact.done for fact in life.job.facts].count(Act.SWAP) == 1
    assert all(fact.done not in (Act.EXAM, Act.MOVE_COLD) for fact in life.job.facts)


def test_what_goes_along_is_the_nodes(training) -> None:
    life = swapped(training, spare=1)
    for _ in range(3):
        crash(life, life.job.places.index("n2") * 2 if "n2" in life.job.places else 0)
        if "n2" not in life.job.places:
            break
    assert "n2" not in life.job.places
    assert life.phase is Phase.RUNNING


def test_a_step_that_is_in_memory_alone_goes_to_the_store_first(training) -> None:
    life = training(nodes=4, task=STORING)
    crash(life, 4)
    old = life.job.epoch
    life.dies(4, signal=11, own_step=7)
    life.answer(snapshots=[(6, old)])
    assert life.job.save is not None
    assert life.job.places == ("n0", "n1", "n2", "n3")
    life.answer(snapshots=[(6, old)], stored=[(6, old)])
    assert life.job.places == ("n0", "n1", "n3", "n2")


def test_where_it_cannot_be_saved_they_stay(training) -> None:
    life = training(nodes=4, task=STORING)
    crash(life, 4)
    old = life.job.epoch
    life.dies(4, signal=11, own_step=7)
    life.answer(snapshots=[(6, old)])
    life.wait(until_s=life.now + life.job.plan.diagnose_s + 1)
    life.answer(snapshots=[(6, old)])
    assert life.job.places == ("n0", "n1", "n2", "n3")
    assert (life.phase, life.job.swaps) == (Phase.RUNNING, "")
    assert life.job.restore is not None
    assert life.job.restore.step == 6


def test_without_a_store_or_with_one_node_none_change_places(training) -> None:
    life = training(nodes=4, spare=1)
    crash(life, 4)
    crash(life, 4)
    assert all(fact.done is not Act.SWAP for fact in life.job.facts)
    assert life.job.places[:2] == ("n0", "n1")


def test_a_place_of_the_same_rack_is_taken_first(life) -> None:
    for name, rack in (("n0", "a"), ("n1", "a"), ("n2", "b"), ("n3", "b"), ("n4", "c")):
        life.node(name, rack)
    life.submit(nodes=4, task=STORING)
    life.answer()
    life.progress(1)
    life.stores(5)
    rack = {name: node.rack for name, node in life.state.nodes.items()}
    before = life.job.places
    crash(life, 2)
    crash(life, 2)
    changed = [(a, b) for a, b in zip(before, life.job.places, strict=True) if a != b]
    assert len(changed) == 2
    assert all(rack[a] == rack[b] for a, b in changed)
