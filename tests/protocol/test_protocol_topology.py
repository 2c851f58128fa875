"""Ranks, places and groups."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol.topology import Axis, Topology, ranks_by_node

sizes = st.integers(1, 5)
topologies = st.builds(
    Topology, dp=sizes, pp=sizes, tp=sizes, order=st.sampled_from(list(permutations(Axis)))
)


@given(topologies)
def test_place_and_rank_are_inverse(topology: Topology) -> None:
    for rank in range(topology.world_size):
        assert topology.rank(topology.coordinates(rank)) == rank


@given(topologies, st.sampled_from(list(Axis)))
def test_groups_along_an_axis_split_the_world(topology: Topology, axis: Axis) -> None:
    groups = topology.groups(axis)
    assert sorted(rank for group in groups for rank in group) == list(range(topology.world_size))
    assert {len(group) for group in groups} == {topology.size(axis)}


def test_tensor_groups_are_consecutive_ranks_by_default() -> None:
    topology = Topology(dp=2, pp=2, tp=2)
    assert topology.groups(Axis.TP) == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert topology.group(0, Axis.DP) == (0, 2)
    assert topology.group(0, Axis.PP) == (0, 4)
    assert topology.group(5, Axis.TP, Axis.DP) == (4, 5, 6, 7)


def test_a_rank_outside_the_world_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="rank 4 is not in a world of 4"):
        Topology(dp=4).coordinates(4)


def test_nodes_carry_consecutive_ranks() -> None:
    assert ranks_by_node(["b", "a"], 2) == {"b": (0, 1), "a": (2, 3)}
