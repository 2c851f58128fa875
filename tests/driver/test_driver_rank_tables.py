"""What goes out of the rank table to one node, how many bytes it is, and what the journal keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Instruct
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.model import State
from holdfast.driver.journal import draft as drafts
from holdfast.driver.journal.draft import Draft, RankTables
from holdfast.driver.ports import Entry
from holdfast.protocol.messages import MAX_FRAME_BYTES, Desired, Rendezvous, Seat, Task
from holdfast.protocol.wire import encode

NODES, RANKS_EACH = 2_048, 8


def table(nodes: int, each: int) -> tuple[Seat, ...]:
    return tuple(
        Seat(
            rank=place * each + local,
            local_rank=local,
            node=f"rack-{place // 16:03d}-node-{place:04d}",
            address=f"10.{place // 250}.{place % 250}.17",
        )
        for place in range(nodes)
        for local in range(each)
    )


def desired(node: str, seats: tuple[Seat, ...]) -> Desired:
    return Desired(
        node=node,
        generation=9,
        term=2,
        epoch=7,
        job="job",
        attempt=3,
        task=Task(command=("python", "train.py"), workdir="/home/somebody", nodes=NODES),
        seats=seats,
        rendezvous=Rendezvous(address="10.0.0.17", port=4711),
    )


def test_an_order_at_16384_ranks_is_a_thousandth_of_the_largest_frame() -> None:
    seats = table(NODES, RANKS_EACH)
    assert len(encode(desired(seats[0].node, seats))) > MAX_FRAME_BYTES
    parts_of = RankTables()
    sent = [encode(parts_of.part(desired(node, seats))) for node in {s.node for s in seats}]
    assert len(sent) == NODES
    assert max(map(len, sent)) < MAX_FRAME_BYTES // 1_000


@given(nodes=st.integers(1, 6), each=st.integers(1, 4), data=st.data())
def test_all_parts_together_are_the_table_and_each_says_how_large_it_is(
    nodes: int, each: int, data: st.DataObject
) -> None:
    seats = table(nodes, each)
    shuffled = tuple(data.draw(st.permutations(seats)))
    names = list(dict.fromkeys(seat.node for seat in seats))
    parts_of = RankTables()
    parts = [parts_of.part(desired(name, shuffled)) for name in names]
    assert tuple(seat for part in parts for seat in part.seats) == seats
    assert [part.place for part in parts] == list(range(nodes))
    assert {(part.world_size, part.places) for part in parts} == {(nodes * each, nodes)}


def test_a_new_table_is_not_mistaken_for_the_one_before() -> None:
    first, second = table(2, 1), tuple(reversed(table(3, 2)))
    parts_of = RankTables()
    parts_of.part(desired(first[0].node, first))
    part = parts_of.part(desired(second[-1].node, second))
    assert [seat.rank for seat in part.seats] == [0, 1]
    assert (part.world_size, part.places) == (6, 3)


def test_a_table_is_taken_apart_once_for_all_who_connect_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[int] = []
    apart = drafts._by_node

    def counted(seats: tuple[Seat, ...]) -> drafts.ByNode:
        taken.append(len(seats))
        return apart(seats)

    monkeypatch.setattr(drafts, "_by_node", counted)
    names, loops = [f"node-{place}" for place in range(4)], RankTables()
    draft = draft_that_seats(4, loops)
    for name in names:
        draft = Draft(state=draft.state, now=0.0, at="", policy=Policy(), rank_tables=loops)
        draft.add(e.ExecutorDisconnected(node=name, incarnation="a"))
        draft.add(e.ExecutorConnected(node=name, incarnation="a", address="10.0.0.17"))
        assert any(isinstance(each, Instruct) for each in draft.entries[-1].effects)
    assert taken == [4]


def test_the_parts_of_no_more_than_so_many_jobs_are_kept() -> None:
    kept, seats = RankTables(), table(2, 1)
    for number in range(drafts.MOST_JOBS + 1):
        kept.part(replace(desired(seats[0].node, seats), job=f"job-{number}"))
    assert len(kept._parts) == drafts.MOST_JOBS


def test_an_order_without_seats_goes_out_as_it_is() -> None:
    bare = replace(desired("node-1", ()), rendezvous=None)
    assert RankTables().part(bare) is bare


def entry_that_seats(count: int) -> Entry:
    """Of a job of one rank on each of so many nodes: the entry by which its ranks may run."""
    return draft_that_seats(count, RankTables()).entries[-1]


def draft_that_seats(count: int, kept: RankTables) -> Draft:
    task = Task(command=("python", "train.py"), workdir="/home/somebody", nodes=count)
    draft = Draft(state=State(), now=0.0, at="", policy=Policy(), rank_tables=kept)
    names = [f"node-{place}" for place in range(count)]
    for name in names:
        draft.add(e.NodeAppeared(node=name))
        draft.add(e.ExecutorConnected(node=name, incarnation="a", address="10.0.0.17"))
    draft.add(e.JobSubmitted(job="job", plan=e.Plan(task=task, nodes=count, ranks_per_node=1)))
    for name in names:
        draft.add(e.NodeAllocated(job="job", node=name))
    job = draft.state.jobs["job"]
    store = Rendezvous(address="10.0.0.17", port=4711)
    draft.add(e.RendezvousReady(job="job", epoch=job.epoch, node=job.host, rendezvous=store))
    for name in names:
        draft.add(e.NodeQuiet(job="job", epoch=job.epoch, node=name))
    return draft


def test_an_entry_that_seats_a_job_grows_with_its_nodes_and_not_with_their_square() -> None:
    orders = [each.desired for each in entry_that_seats(20).effects if isinstance(each, Instruct)]
    assert len(orders) == 20
    assert [len(order.seats) for order in orders] == [1] * 20
    assert {(order.world_size, order.places) for order in orders} == {(20, 20)}
    assert sorted(order.place for order in orders) == list(range(20))
