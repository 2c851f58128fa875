"""What is new in a report of an executor, as tables."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.driver.adapters.websocket.observed import BLANK, news
from holdfast.driver.core.events import (
    DiagnosticEnded,
    NodeQuiet,
    RanksExited,
    RanksRunning,
    RendezvousLost,
    RendezvousReady,
)
from holdfast.protocol.messages import (
    Desired,
    DiagnosticOrder,
    DiagnosticResult,
    Observed,
    RankStatus,
    Rendezvous,
    Seat,
    Snapshot,
    Stored,
)

SEATS = tuple(
    Seat(rank=rank, local_rank=rank % 2, node=f"n{rank // 2}", address="a") for rank in range(4)
)
QUIESCED = Desired(node="n0", generation=3, term=1, epoch=7, job="j", host_rendezvous=True)
SEATED = replace(QUIESCED, generation=4, attempt=1, seats=SEATS, host_rendezvous=False)
HOSTING = replace(SEATED, host_rendezvous=True)
STORE = Rendezvous(address="10.0.0.1", port=4711)
QUIET = Observed(
    node="n0",
    incarnation="i",
    sequence=1,
    generation=3,
    epoch=7,
    job="j",
    quiet=True,
    snapshots=(Snapshot(rank=0, step=9, epoch=6),),
)


def running(*ranks: int, sequence: int = 2) -> Observed:
    statuses = tuple(RankStatus(rank=rank, state="running", pid=100 + rank) for rank in ranks)
    return replace(QUIET, sequence=sequence, generation=4, attempt=1, ranks=statuses)


def exited(rank: int, order: int, **how: int) -> RankStatus:
    return RankStatus(rank=rank, state="exited", order=order, **how)  # type: ignore[arg-type]


def after(before: Observed, seen: Observed, told: Desired | None = QUIESCED) -> list[object]:
    return list(news(before, seen, told, completed_step=lambda job: 8, saved_steps=lambda job: 5))


def test_quiet_comes_with_what_the_node_holds() -> None:
    expected = NodeQuiet(job="j", epoch=7, node="n0", snapshots=QUIET.snapshots)
    assert after(BLANK, QUIET) == [expected]


def test_quiet_is_said_once_and_again_when_more_is_known() -> None:
    assert after(QUIET, replace(QUIET, sequence=2, launcher="warm")) == []
    looked_up = replace(QUIET, sequence=3, stored=(Stored(step=5, epoch=6),))
    (event,) = after(QUIET, looked_up)
    assert isinstance(event, NodeQuiet)
    assert event.stored == looked_up.stored


def test_what_the_store_has_taken_so_far_is_no_event_of_a_node() -> None:
    assert after(QUIET, replace(QUIET, sequence=2, saved_bytes=10**9)) == []


def test_quiet_says_what_the_store_waits_for_and_when_that_is_over() -> None:
    cold = replace(QUIET, preparing="it imports torch")
    (event,) = after(BLANK, cold)
    assert isinstance(event, NodeQuiet)
    assert event.preparing == "it imports torch"
    (event,) = after(cold, QUIET)
    assert isinstance(event, NodeQuiet)
    assert event.preparing == ""


def test_quiet_of_another_order_or_epoch_does_not_count() -> None:
    assert after(BLANK, replace(QUIET, generation=2)) == []
    assert after(BLANK, replace(QUIET, epoch=6)) == []
    assert after(BLANK, QUIET, SEATED) == []
    assert after(BLANK, QUIET, None) == []
    assert after(BLANK, replace(QUIET, quiet=False)) == []


def test_a_new_order_of_the_same_epoch_has_quiet_said_again() -> None:
    (event,) = after(QUIET, replace(QUIET, generation=4), replace(QUIESCED, generation=4))
    assert isinstance(event, NodeQuiet)


def test_the_store_is_said_once_for_each_place_where_it_listens() -> None:
    listening = replace(QUIET, rendezvous=STORE)
    assert RendezvousReady(job="j", epoch=7, node="n0", rendezvous=STORE) in after(QUIET, listening)
    assert after(listening, replace(listening, sequence=9)) == []
    moved = replace(listening, rendezvous=Rendezvous(address="10.0.0.1", port=4712))
    assert [type(each) for each in after(listening, moved)] == [RendezvousReady]


def test_a_store_is_lost_when_ranks_run_without_it() -> None:
    lost = RendezvousLost(job="j", epoch=7, node="n0")
    with_store = replace(running(0, 1), rendezvous=STORE)
    assert after(with_store, running(0, 1, sequence=3), HOSTING) == [lost]
    assert after(running(0, 1), running(0, 1, sequence=3), HOSTING) == [], "once"
    assert lost in after(BLANK, running(0, 1), HOSTING), "also to a driver that was away"


def test_a_store_is_not_lost_where_it_is_not_needed() -> None:
    with_store = replace(running(0, 1), rendezvous=STORE)
    assert after(with_store, running(0, 1, sequence=3), SEATED) == [], "another node's"
    over = replace(QUIET, generation=4, attempt=1, ranks=(exited(0, 1), exited(1, 2)))
    assert not [
        each for each in after(with_store, over, HOSTING) if isinstance(each, RendezvousLost)
    ]
    assert after(replace(QUIET, rendezvous=STORE), replace(QUIET, sequence=2)) == [], (
        "before any rank"
    )


def test_ranks_run_once_all_of_the_node_do() -> None:
    assert after(QUIET, running(0), SEATED) == []
    assert after(running(0), running(0, 1), SEATED) == [RanksRunning(job="j", epoch=7, node="n0")]
    assert after(running(0, 1), running(0, 1, sequence=3), SEATED) == []


def test_ranks_of_other_nodes_and_of_other_epochs_are_not_waited_for() -> None:
    assert after(QUIET, running(2, 3), SEATED) == []
    assert after(QUIET, running(0, 1), replace(SEATED, epoch=8)) == []


def test_a_rank_that_ends_at_once_has_run() -> None:
    seen = replace(running(0), ranks=(*running(0).ranks, exited(1, 1, exit_code=1)))
    assert [type(each) for each in after(QUIET, seen, SEATED)] == [RanksRunning, RanksExited]


def test_exits_are_said_once_in_their_order_with_the_step_that_all_had() -> None:
    first = replace(running(0, 1), ranks=(exited(1, 1, signal=9), running(0).ranks[0]))
    (event,) = after(running(0, 1), first, SEATED)
    assert event == RanksExited(
        job="j", epoch=7, node="n0", exits=(exited(1, 1, signal=9),), step=8, saved=5
    )
    both = replace(first, ranks=(exited(0, 2, exit_code=1), exited(1, 1, signal=9)))
    (later,) = after(first, both, SEATED)
    assert isinstance(later, RanksExited)
    assert [status.rank for status in later.exits] == [0]
    (at_once,) = after(running(0, 1), both, SEATED)
    assert isinstance(at_once, RanksExited)
    assert [status.rank for status in at_once.exits] == [1, 0]


def test_a_new_attempt_starts_from_nothing() -> None:
    died = replace(running(0, 1), ranks=(exited(0, 1, signal=9), exited(1, 2, signal=9)))
    again = replace(died, attempt=2)
    told = replace(SEATED, attempt=2)
    assert [type(each) for each in after(died, again, told)] == [RanksRunning, RanksExited]


def test_a_diagnosis_ends_with_its_last_result() -> None:
    orders = (DiagnosticOrder(id="d", test="compute"), DiagnosticOrder(id="d", test="allreduce"))
    told = replace(QUIESCED, diagnostics=orders)
    half = DiagnosticResult(id="d", test="compute", node="n0", ok=True)
    rest = DiagnosticResult(id="d", test="allreduce", node="n0", ok=None)
    first = replace(QUIET, diagnostics=(half,))
    both = replace(QUIET, diagnostics=(half, rest))
    assert after(QUIET, first, told) == []
    expected = DiagnosticEnded(node="n0", id="d", results=(half, rest))
    assert after(first, both, told) == [expected]
    assert after(both, both, told) == []
    assert after(BLANK, both, told)[-1] == expected


def test_a_free_node_is_no_news() -> None:
    assert (
        after(BLANK, Observed(node="n0", incarnation="i", sequence=1, generation=0, epoch=0)) == []
    )


LIFE = (
    QUIET,
    replace(QUIET, sequence=2, rendezvous=STORE),
    replace(running(0, sequence=3), rendezvous=STORE),
    replace(running(0, 1, sequence=4), rendezvous=STORE),
    replace(running(0, 1, sequence=5), ranks=(running(0).ranks[0], exited(1, 1, signal=9))),
    replace(running(0, 1, sequence=6), ranks=(exited(0, 2, exit_code=1), exited(1, 1, signal=9))),
)


@given(st.sets(st.integers(1, len(LIFE) - 2)))
def test_what_is_lost_between_two_reports_is_made_good_by_the_next(lost: set[int]) -> None:
    """Reports are whole: dropping any of them loses no exit and no start."""
    kept = [BLANK, *(seen for place, seen in enumerate(LIFE) if place not in lost)]
    events = [event for before, seen in pairwise(kept) for event in after(before, seen, SEATED)]
    assert sum(isinstance(each, RanksRunning) for each in events) == 1
    exits = [each.exits for each in events if isinstance(each, RanksExited)]
    assert [status.rank for found in exits for status in found] == [1, 0]


def test_who_is_told_anew_says_anew_all_that_is_so() -> None:
    """Its job was parked, and nobody listened."""
    ended = replace(running(0), ranks=(*running(0).ranks, exited(1, 1, exit_code=1)))
    assert after(ended, replace(ended, sequence=3), SEATED) == []
    again = replace(ended, sequence=3, generation=5)
    told = after(ended, again, replace(SEATED, generation=5))
    assert [type(event) for event in told] == [RanksRunning, RanksExited]
