"""Deaths at one site, all on one node: two places change nodes, which tells place from node."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.state.fact import Act, Bearing
from holdfast.driver.core.state.model import Phase

STORING = e.Task(command=("train",), workdir=".", store_url="file:///s", store_interval_steps=5)


def dies_at_7(life, rank: int, *, saves: bool = True) -> None:
    """It dies after step 7, which is in the nodes' memory, and in the store once that is wanted."""
    old = life.job.epoch
    life.dies(rank, signal=11, own_step=7)
    for _ in range(12):
        if life.phase in (Phase.RUNNING, Phase.FAILED):
            return
        stored = [(7, old)] if saves and life.job.save is not None else []
        life.answer(snapshots=[(7, old)], stored=stored, store_error="" if saves else "it hangs")
        if life.job.exam is not None:
            life.tests_end()
        if not saves:
            life.wait()


def says(life, words: str) -> bool:
    return any(words in why for why in life.whys)


@pytest.fixture
def swapped(training):
    """Rank 2 died twice on n1, the second of three places; the last place has n1 now."""
    life = training(nodes=3, spare=1, task=STORING)
    for _ in range(2):
        dies_at_7(life, 2)
    assert life.job.places == ("n0", "n2", "n1")
    return life


def test_its_last_step_is_in_the_store_before_places_change(swapped) -> None:
    told = [
        *("swap its place with another node of the job", "step 7 of job goes to the store"),
        "n2 and n1 change places",
    ]
    at = [next(k for k, why in enumerate(swapped.whys) if words in why) for words in told]
    assert at == sorted(at)
    assert (swapped.job.swaps, swapped.job.leaving) == ("", ())


def test_to_be_asked_at_another_place_accuses_no_node(swapped) -> None:
    own = swapped.state.nodes["n1"].record.facts
    assert [(fact.done, fact.bearing) for fact in own] == [
        (Act.RESTART, Bearing.CONTEXT),
        (Act.SWAP, Bearing.CONTEXT),
    ]


def test_what_stays_at_its_place_moves_no_node_and_accuses_none(swapped) -> None:
    while swapped.phase is not Phase.FAILED:
        dies_at_7(swapped, 2)
    assert "on 2 nodes: it is not the node" in swapped.job.failure.reason
    assert swapped.job.failure.reason.count("4 times") == 1
    facts = [fact for node in swapped.state.nodes.values() for fact in node.record.facts]
    assert (swapped.moved, [x for x in facts if x.bearing is Bearing.ACCUSES]) == ([], [])


def test_what_goes_along_is_the_nodes(swapped) -> None:
    for _ in range(2):
        dies_at_7(swapped, 4)  # tested, then left
    assert swapped.moved == ["n1"]
    assert swapped.job.places == ("n0", "n2", "n3")
    assert swapped.phase is Phase.RUNNING


def test_what_goes_along_is_not_the_scripts_where_no_other_node_is_to_be_had(training) -> None:
    life = training(nodes=3, task=STORING)
    for rank in (2, 2, 4):
        dies_at_7(life, rank)
    assert life.phase is Phase.RUNNING
    (row,) = [row for row in life.incident.table.rows if row.hypothesis == "user"]
    assert row.why == "it came on n1 again, at another place of the job"
    dies_at_7(life, 4)
    assert life.phase is Phase.FAILED
    assert life.job.failure.reason.endswith(
        "It came on n1 again, at another place of the job, no other node may take its place, and "
        "the job gets no further"
    )
    (accused,) = [x for x in life.state.nodes["n1"].record.facts if x.done is Act.GIVE_UP]
    assert accused.bearing is Bearing.ACCUSES


@pytest.mark.parametrize(("rank", "places"), [(0, ("n2", "n1", "n0")), (4, ("n0", "n2", "n1"))])
def test_rank_0_stays_where_it_is_unless_it_dies(training, rank: int, places: tuple) -> None:
    life = training(nodes=3, task=STORING)
    for _ in range(2):
        dies_at_7(life, rank)
    assert life.job.places == places


def test_where_the_step_cannot_be_saved_places_stay(training) -> None:
    life = training(nodes=3, task=STORING)
    dies_at_7(life, 2)
    dies_at_7(life, 2, saves=False)
    assert life.job.places == ("n0", "n1", "n2")
    assert (life.job.restore.step, life.job.restore.where) == (7, "memory")
    assert life.job.swaps == ""
    told = "no places were swapped, for step 7 could not be saved first"
    assert says(life, told)
    table = life.incident.table
    assert (table.act, table.why.endswith(f"; {told}")) == (Act.RESTART, True)
    facts = [*life.job.facts, *life.state.nodes["n1"].record.facts]
    assert not any(fact.done is Act.SWAP for fact in facts)


def test_what_could_not_be_swapped_is_asked_again(training) -> None:
    life = training(nodes=3, task=STORING)
    dies_at_7(life, 2)
    dies_at_7(life, 2, saves=False)
    dies_at_7(life, 2)
    assert life.job.places == ("n0", "n2", "n1")


def test_a_node_that_is_lost_meanwhile_needs_no_other_place(training) -> None:
    life = training(nodes=3, spare=1, task=STORING)
    dies_at_7(life, 2)
    old = life.job.epoch
    life.dies(2, signal=11, own_step=7)
    life.answer(snapshots=[(7, old)])
    assert life.job.swaps == "n1"
    life.lose("n1")
    for _ in range(6):
        life.answer(snapshots=[(7, old)], stored=[(7, old)])
    assert life.job.places == ("n0", "n3", "n2")
    assert life.job.swaps == ""
    assert says(life, "job: no places were swapped, for n1 is not in it any more")
    assert not any(fact.done is Act.SWAP for fact in life.job.facts)


def test_while_another_place_has_no_node_no_places_change(training) -> None:
    life = training(nodes=3, task=STORING)
    dies_at_7(life, 2)
    old = life.job.epoch
    life.dies(2, signal=11, own_step=7)
    life.answer(snapshots=[(7, old)])
    life.lose("n2")
    for _ in range(6):
        life.answer(snapshots=[(7, old)], stored=[(7, old)])
    assert says(life, "no places were swapped, for another place of the job has no node now")


@pytest.mark.parametrize("more", [{}, {"nodes": 1, "task": STORING}])
def test_a_job_without_a_store_or_with_one_node_has_no_places_to_change(training, more) -> None:
    life = training(**{"nodes": 3, "spare": 1} | more)
    for _ in range(3):
        dies_at_7(life, 2 if life.job.layout.nodes > 1 else 0)
    assert not any("change places" in why for why in life.whys)


def test_a_place_of_the_same_rack_is_taken_first(life) -> None:
    for name, rack in (("n0", "a"), ("n1", "a"), ("n2", "b"), ("n3", "b"), ("n4", "c")):
        life.node(name, rack)
    life.submit(nodes=4, task=STORING)
    life.answer()
    life.progress(1)
    rack = {name: node.rack for name, node in life.state.nodes.items()}
    before = life.job.places
    for _ in range(2):
        dies_at_7(life, 2)
    changed = [(a, b) for a, b in zip(before, life.job.places, strict=True) if a != b]
    assert len(changed) == 2
    assert all(rack[a] == rack[b] for a, b in changed)


def test_who_cannot_leave_its_node_yet_waits_for_one_that_is_on_its_way_back(training) -> None:
    """It starts again, within its budget, and leaves once the other is free."""
    life = training(nodes=3, spare=1, task=STORING)
    life.submit("other", nodes=1, ranks_per_node=1)
    life.answer("other")
    life.do(e.StopRequested(job="other"))
    life.answer("other")
    for rank in (2, 2, 4, 4):
        dies_at_7(life, rank)
    assert (life.phase, life.moved) == (Phase.RUNNING, [])
    life.do(e.NodeReleased(node="n3"))
    dies_at_7(life, 4)
    assert (life.phase, life.moved) == (Phase.RUNNING, ["n1"])
