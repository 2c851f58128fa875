"""Copies of snapshots on other nodes: whose go where, and what a job goes on from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_jobs import made_job
from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.attempt.restore_step import chosen
from holdfast.driver.core.state.layout import distance
from holdfast.driver.core.state.model import Attempt, Job, Phase
from holdfast.driver.core.state.node import Broken, Quiet
from holdfast.driver.core.state.orders import desired_of
from holdfast.driver.core.state.restore_point import Where
from holdfast.protocol.messages import Snapshot, Stored, Task
from holdfast.protocol.topology import Axis, Topology


def groups_of(topology: Topology, place: int, per_node: int) -> set[tuple[int, ...]]:
    ranks = range(place * per_node, (place + 1) * per_node)
    return {
        topology.group(rank, axis) for rank in ranks for axis in Axis if topology.size(axis) > 1
    }


def sharing(topology: Topology, places: int, per_node: int, far: int) -> int:
    groups = [groups_of(topology, place, per_node) for place in range(places)]
    return sum(bool(groups[place] & groups[(place + far) % places]) for place in range(places))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.sampled_from([1, 2, 4]))
def test_copies_go_where_the_fewest_share_a_group(dp: int, pp: int, tp: int, per_node: int) -> None:
    topology = Topology(dp=dp, pp=pp, tp=tp)
    if topology.world_size % per_node:
        return
    places = topology.world_size // per_node
    far = distance(topology, places, per_node)
    if places == 1:
        return
    assert far % places, "not to itself"
    counts = {each: sharing(topology, places, per_node, each) for each in range(1, places)}
    assert counts[far] == min(counts.values())


def test_a_grid_of_stages_and_replicas_has_places_that_share_nothing() -> None:
    topology = Topology(dp=4, pp=4, tp=8)
    far = distance(topology, 16, 8)
    assert sharing(topology, 16, 8, far) == 0


def test_of_thousands_of_ranks_each_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each pair of places it took the driver seven seconds, in which it heard nobody."""
    looked, coordinates = list[int](), Topology.coordinates

    def noted(topology: Topology, rank: int) -> dict[Axis, int]:
        looked.append(rank)
        return coordinates(topology, rank)

    monkeypatch.setattr(Topology, "coordinates", noted)
    distance.cache_clear()
    assert distance(Topology(dp=64, pp=12, tp=16), 1536, 8) == 3
    assert sorted(looked) == [*range(12_288)]


def test_one_node_has_no_other() -> None:
    assert distance(Topology(), 1, 1) in (0, 1)


PLAN = e.Plan(
    task=Task(command=("x",), workdir=".", peer_interval_steps=2), nodes=2, ranks_per_node=1
)


def job(plan: e.Plan = PLAN) -> Job:
    fields = {"phase": Phase.RESTORING, "history": (Attempt(epoch=1),)}
    return made_job("job", plan, places=("a", "b"), **fields)


def snap(rank: int, *steps: int) -> tuple[Snapshot, ...]:
    return tuple(Snapshot(rank=rank, step=step, epoch=1) for step in steps)


@pytest.mark.parametrize(
    ("held", "port", "step"),
    [
        (snap(0, 8, 9) + snap(1, 8), 7, 8),
        (snap(0, 8, 9) + snap(1, 8), 0, None),
        (snap(0, 9) + snap(1, 8), 7, None),
    ],
    ids=["its copy is here", "its holder gives nothing", "the other rank has not that step"],
)
def test_a_rank_of_which_another_node_has_a_copy_counts(
    held: tuple[Snapshot, ...], port: int, step: int | None
) -> None:
    quiet = {"a": Quiet(snapshots=held, peer_port=port), "b": Quiet()}
    point = chosen(job(), quiet).point
    assert (point.step if point else None) == step


def test_without_copies_what_lies_elsewhere_does_not_count() -> None:
    plan = replace(PLAN, task=replace(PLAN.task, peer_interval_steps=0))
    quiet = {"a": Quiet(snapshots=snap(0, 8) + snap(1, 8), peer_port=7), "b": Quiet()}
    assert chosen(job(plan), quiet).point is None


def test_a_node_is_told_where_its_copies_go_and_who_has_what_it_lacks(training) -> None:
    life = training(task=PLAN.task, topology=Topology(dp=4))
    first = life.job.epoch
    life.dies(1, signal=9, step=12)
    life.answer(snapshots=[(12, first)], empty=["n1"], peer_ports={"n0": 70, "n1": 71})
    told = {node: life.told(node) for node in life.job.nodes}
    assert life.job.restore.step == 12
    assert {node: one.peer.port for node, one in told.items()} == {"n0": 71, "n1": 70}
    assert told["n0"].restore.peers == {}
    assert {rank: peer.port for rank, peer in told["n1"].restore.peers.items()} == {2: 70, 3: 70}


def test_who_has_its_snapshot_itself_is_told_of_no_other_that_has_it(training) -> None:
    life = training(task=PLAN.task, topology=Topology(dp=4))
    first = life.job.epoch
    life.dies(1, signal=9, step=12)
    life.answer(snapshots=[(12, first)], peer_ports={"n0": 70, "n1": 71})
    assert [life.told(node).restore.peers for node in life.job.nodes] == [{}, {}]


def test_without_copies_nobody_is_told_of_a_peer(training) -> None:
    life = training()
    first = life.job.epoch
    life.dies(1, signal=9, step=12)
    life.answer(snapshots=[(12, first)], peer_ports={"n0": 70, "n1": 71})
    told = [life.told(node) for node in life.job.nodes]
    assert [(one.peer, one.restore.peers) for one in told] == [(None, {}), (None, {})]


def test_a_job_of_one_node_is_told_of_no_other(training) -> None:
    life = training(nodes=1, task=PLAN.task, topology=Topology(dp=2))
    life.dies(1, signal=9, step=12)
    life.answer(snapshots=[(12, life.job.epoch - 1)], peer_ports={"n0": 70})
    assert life.told("n0").peer is None


def test_the_node_that_took_the_place_of_a_lost_one_sends_and_gets_from_then_on(training) -> None:
    life = training(standbys=1, task=PLAN.task, topology=Topology(dp=4))
    first = life.job.epoch
    life.lose("n1")
    life.answer(snapshots=[(12, first)], empty=["n2"], peer_ports={"n0": 70, "n1": 71, "n2": 72})
    assert life.job.places == ("n0", "n2")
    told = {node: life.told(node) for node in life.job.nodes}
    assert {node: one.peer.port for node, one in told.items()} == {"n0": 72, "n2": 70}
    assert told["n2"].restore.peers.keys() == {2, 3}
    assert {peer.address for peer in told["n2"].restore.peers.values()} == {"10.0.0.0"}


def test_a_node_that_takes_no_copies_or_cannot_be_reached_is_nobodys_peer(training) -> None:
    life = training(task=PLAN.task, topology=Topology(dp=4))
    first = life.job.epoch
    life.dies(1, signal=9, step=12)
    life.answer(snapshots=[(12, first)], peer_ports={"n0": 70}, runs=False)
    assert life.told("n0").peer is None, "n1 takes none"
    node = replace(life.state.nodes["n0"], link=Broken(incarnation="n0-first", address="10.0.0.0"))
    state = replace(life.state, nodes={**life.state.nodes, "n0": node})
    assert desired_of(life.state, life.state.nodes["n1"]).peer is not None
    assert desired_of(state, state.nodes["n1"]).peer is None, "n0 is not connected"


@pytest.mark.parametrize(
    "copy",
    [
        Snapshot(rank=1, step=8, epoch=1),
        Snapshot(rank=1, step=6, epoch=2),
        Snapshot(rank=0, step=8, epoch=2),
    ],
    ids=["of another attempt", "of another step", "of another rank"],
)
def test_only_a_copy_of_that_rank_step_and_attempt_makes_a_step_whole(copy: Snapshot) -> None:
    of_two = replace(job(), history=(Attempt(epoch=1, end=6), Attempt(epoch=2)))
    own = Snapshot(rank=0, step=8, epoch=2)
    quiet = {"a": Quiet(snapshots=(own, copy), peer_port=7), "b": Quiet()}
    assert chosen(of_two, quiet).point is None
    right = Snapshot(rank=1, step=8, epoch=2)
    point = chosen(of_two, {"a": Quiet(snapshots=(own, right), peer_port=7), "b": Quiet()}).point
    assert point is not None
    assert point.saved == (8, 2)


def test_memory_comes_before_the_store_and_a_copy_counts_as_memory() -> None:
    """Of one step; and of two the newer."""
    held = Quiet(snapshots=snap(0, 8) + snap(1, 8), peer_port=7)
    stored = {step: Quiet(stored=(Stored(step=step, epoch=1),)) for step in (8, 9)}
    same = chosen(job(), {"a": replace(held, stored=stored[8].stored), "b": Quiet()}).point
    newer = chosen(job(), {"a": replace(held, stored=stored[9].stored), "b": Quiet()}).point
    assert same is not None
    assert (same.step, same.where) == (8, Where.MEMORY)
    assert newer is not None
    assert (newer.step, newer.where) == (9, Where.STORE)
