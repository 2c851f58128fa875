"""Who was first to bring no numbers into a reduction: named only where its peers brought some."""

from math import nan

from hypothesis import given
from hypothesis import strategies as st

from holdfast.driver.watch import Expectation, brought
from holdfast.driver.watch.jobs import JobSeen, RankSeen
from holdfast.driver.watch.loss_not_a_number import KNOWN, STEPS, NotANumber, hear, judge
from holdfast.protocol.faults import Finding
from holdfast.protocol.messages import BadLoss, GroupProgress, Heartbeat, RankProgress, Seat

NODES = ("a", "a", "b", "b")
SEATS = tuple(Seat(rank=k, local_rank=k % 2, node=n, address="::") for k, n in enumerate(NODES))
SINCE = 100
ALL = (0, 1, 2, 3)
DATA = ((0, 2), (1, 3))


def group(ranks: tuple[int, ...], good: int, bad: int, step: int) -> GroupProgress:
    return GroupProgress(
        members=hash(ranks),
        kind="all_reduce",
        enqueued=900,
        done=900,
        ranks=ranks,
        good=good,
        bad=bad,
        bad_step=step if bad else 0,
    )


def rank(number: int, *groups: GroupProgress) -> RankSeen:
    progress = RankProgress(
        rank=number,
        epoch=1,
        job="job",
        step=SINCE + STEPS,
        loss=nan,
        bad_loss=BadLoss(told=STEPS, since=SINCE, last=SINCE + STEPS, good=SINCE - 1, goods=KNOWN),
        groups=groups,
    )
    return RankSeen(progress=progress, heard_s=0.0, uptime_s=0.0)


def world(*told: tuple[int, int, int]) -> dict[int, RankSeen]:
    """Of each rank good, bad and step in one group of all."""
    return {k: rank(k, group(ALL, *each)) for k, each in enumerate(told)}


FIRST = (499, 500, SINCE - 1)
AFTER = (500, 505, SINCE)
"""Of a peer: it brought numbers when the first brought none, and none from the next step on."""


def named(seen: dict[int, RankSeen]) -> list[int]:
    return sorted(brought.first(seen, SINCE - 1, SINCE))


def finding(seen: dict[int, RankSeen]) -> Finding | None:
    """Of a job whose ranks all tell the mean loss, so that it is none on all at once."""
    expected = Expectation(job="job", epoch=1, seats=SEATS)
    job = JobSeen(expected=expected, began_s=0.0, places=expected.node_of(), ranks=seen)
    ranks = tuple(each.progress for each in seen.values())
    known = NotANumber()
    beat = Heartbeat(node="a", incarnation="i", sequence=1, uptime_s=1.0, ranks=ranks)
    hear(known, beat, job)
    return judge(known, job)


def test_who_brought_none_when_its_peers_did_is_named_with_its_node() -> None:
    told = finding(world(AFTER, AFTER, AFTER, FIRST))
    assert told is not None
    assert (told.node, told.rank) == ("b", 3)
    assert told.summary.endswith("on all ranks, and began on rank 3 of b")
    assert told.evidence[0].text == (
        "brought no numbers into collective #500 at step 99, before they were summed; 3 others "
        "brought numbers into it"
    )


def test_where_all_brought_none_at_once_nobody_is() -> None:
    told = finding(world(*[(499, 500, SINCE)] * 4))
    assert told is not None
    assert (told.node, told.rank) == (None, None)


def test_nobody_is_where_a_peer_was_not_looked_at_then() -> None:
    assert named(world(AFTER, AFTER, (480, 505, SINCE), FIRST)) == []


def test_nobody_is_where_a_peer_is_not_heard_of() -> None:
    seen = world(AFTER, AFTER, AFTER, FIRST)
    del seen[1]
    assert named(seen) == []


def test_ranks_of_two_nodes_at_once_name_no_node() -> None:
    told = finding(world(FIRST, AFTER, AFTER, FIRST))
    assert told is not None
    assert told.node is None


def test_who_always_brings_none_is_not_named_for_what_came_later() -> None:
    """As a rank that reduces minus infinity where it has nothing."""
    assert named(world(AFTER, AFTER, (0, 3, 1), AFTER)) == []


def test_who_had_it_from_the_first_one_is_not_named() -> None:
    """Rank 3 had it first, in its group of replicas; 1 got it there, and brought it to all."""
    seen = {
        0: rank(0, group(DATA[0], 250, 251, SINCE), group(ALL, 500, 505, SINCE)),
        2: rank(2, group(DATA[0], 250, 251, SINCE), group(ALL, 500, 505, SINCE)),
        1: rank(1, group(DATA[1], 250, 251, SINCE), group(ALL, 499, 500, SINCE - 1)),
        3: rank(3, group(DATA[1], 249, 250, SINCE - 1), group(ALL, 499, 500, SINCE - 1)),
    }
    assert named(seen) == [3]


@given(st.data())
def test_of_one_group_nobody_is_named_who_was_not_the_first(data: st.DataObject) -> None:
    numbers = st.integers(1, 6)
    told = []
    for _ in ALL:
        good = data.draw(numbers)
        told.append((good, data.draw(st.sampled_from([0, good + 1])), SINCE))
    for each, what in brought.first(world(*told), SINCE - 1, SINCE).items():
        others = [told[k] for k in ALL if k not in what.ranks]
        assert others
        assert told[each][1] == what.number
        assert all(good >= what.number for good, _, _ in others)
