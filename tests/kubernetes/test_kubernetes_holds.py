"""Which slot of its job a node is."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.driver.adapters.kubernetes.holds import Hold, Holds

NODES, OWNERS = ("node-1", "node-2", "node-3", "node-4"), ("job-1", "job-2")
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(NODES),
        st.one_of(st.none(), st.tuples(st.sampled_from(OWNERS), st.integers(0, 3))),
    )
)


@given(CHANGES)
def test_the_lowest_slot_is_one_that_no_node_has_and_none_below_is_free(
    changes: list[tuple[str, tuple[str, int] | None]],
) -> None:
    """Two nodes may have one slot, where a person made a pod twice: both have to go first."""
    holds, known = Holds(), dict[str, Hold]()
    for node, given_to in changes:
        if given_to is None:
            holds.drop(node)
            known.pop(node, None)
        else:
            known[node] = Hold("speech", *given_to)
            holds.put(node, known[node])
        for owner in OWNERS:
            taken = {hold.slot for hold in known.values() if hold.owner == owner}
            lowest = holds.lowest_slot(owner)
            assert lowest not in taken
            assert set(range(lowest)) <= taken
        assert {each: holds.get(each) for each in NODES if each in holds} == known
