"""Stories: who saw what, what follows from it, and what was decided."""

from typing import Any

import msgspec
import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Distrust
from holdfast.driver.core.state.model import Incident
from holdfast.driver.people.story import lines_of, timeline
from holdfast.driver.ports import Entry
from holdfast.protocol.faults import Blame, Evidence, Finding, Kind, Weight
from holdfast.protocol.messages import DiagnosticResult, RankError, RankStatus, Rendezvous

LOST = Finding(
    kind=Kind.NODE_LOST,
    weight=Weight.CONCLUSIVE,
    node="n2",
    summary="n2 is lost: silent for 2 s, and n1 got no answer",
    evidence=(
        Evidence(source="driver", text="n2 sent no heartbeat for 2 s"),
        Evidence(source="daemon of n1", text="n1 got no answer from n2"),
    ),
)


def entry(sequence: int, event: Any, why: str = "", **more: Any) -> Entry:
    given = {"effects": (), "jobs": ("job",), **more}
    return Entry(
        sequence=sequence, term=1, now=float(sequence), at="14:02:03", policy=1, event=event,
        why=why, **given,
    )  # fmt: skip


def exits(node: str, *ranks: int, echo: bool = False, epoch: int = 1) -> e.RanksExited:
    error = RankError(message="ValueError: x; y", exception="ValueError", in_collective=echo)
    ended = [RankStatus(rank=rank, state="exited", exit_code=1, error=error) for rank in ranks]
    return e.RanksExited(job="job", epoch=epoch, node=node, exits=tuple(ended))


def test_evidence_names_its_witness_and_two_sources_agree() -> None:
    why = f"{LOST.summary}: replace the node; n2 is evicted"
    first, second, decided = lines_of([entry(1, e.Found(finding=LOST), why, incident=1)])
    assert (first.source, first.verdict) == ("driver", "")
    assert (second.source, second.verdict) == ("daemon of n1", "two sources agree")
    assert (decided.seen, decided.text) == (False, "replace the node; n2 is evicted")


def test_the_same_end_of_many_ranks_is_one_line_of_the_incident_that_follows() -> None:
    why = "rank 0 on n1 raised ValueError: x; y: restart the ranks on the same nodes"
    told = lines_of(
        [
            entry(1, exits("n1", 0, 1), "rank 0, 1 on n1 ended"),
            entry(2, exits("n2", 2), "rank 2 on n2 ended"),
            entry(3, e.Ticked(), why, incident=7),
        ]
    )
    assert [line.text for line in told] == [
        "ranks 0, 1, 2 on n1, n2 raised ValueError: x; y",
        "restart the ranks on the same nodes",
    ]
    assert [line.incident for line in told] == [7, 7]


@pytest.mark.parametrize(
    ("why", "decided"),
    [
        ("job is given up: rank 0 on n1 raised ValueError: x; y.", "job is given up"),
        (
            "job is given up: rank 0 on n1 raised ValueError: x; y. It is late",
            "job is given up. It is late",
        ),
    ],
)
def test_a_reason_is_told_once_however_much_of_the_decision_it_is(why: str, decided: str) -> None:
    told = lines_of([entry(1, exits("n1", 0)), entry(2, e.Ticked(), why)])
    assert told[-1].text.endswith(decided)
    assert "ValueError" not in told[-1].text


@pytest.mark.parametrize("known", [True, False])
def test_an_echo_is_told_only_where_no_cause_is_known(known: bool) -> None:
    entries = [entry(1, exits("n1", 0, echo=True)), entry(2, exits("n2", 1, echo=not known))]
    texts = [line.text for line in lines_of(entries)]
    assert any("lost a peer" in text for text in texts) is not known


def test_each_attempt_is_told() -> None:
    told = lines_of([entry(n, exits("n1", 0, epoch=n)) for n in (1, 2)])
    assert [line.sequence for line in told] == [1]  # nothing between them: the same sentence
    between = entry(2, e.Ticked(), "job waits: no node is free")
    told = lines_of([entry(1, exits("n1", 0)), between, entry(3, exits("n1", 0, epoch=2))])
    assert [line.sequence for line in told] == [1, 2, 3]


def test_tests_end_with_whom_they_convict() -> None:
    result = DiagnosticResult(
        id="1", test="all-reduce", node="n1", members=("n1", "n2"), ok=False, detail="timed out"
    )
    distrust = Distrust(node="n2", incident=1, reason="its link failed the tests")
    ended = e.DiagnosticEnded(node="n1", id="1", results=(result,))
    why = "n1 ended its tests; n2 is evicted"
    seen, decided = lines_of([entry(1, ended, why, effects=(distrust,))])
    assert seen.text == "all-reduce with n2: failed, timed out"
    assert seen.verdict == "n2: its link failed the tests"
    assert decided.text == "n2 is evicted"


def test_a_persons_wish_is_told_as_one_and_what_follows_as_decided() -> None:
    why = "a person wants job suspended; job is suspended and has given its nodes back"
    wish, decided = lines_of([entry(1, e.SuspendRequested(job="job"), why)])
    assert (wish.seen, wish.text) == (True, "a person wants job suspended")
    assert (decided.seen, decided.text) == (False, "job is suspended and has given its nodes back")


def test_what_is_no_news_is_told_only_when_all_is_asked_for() -> None:
    why = "no earlier rank is left on n1; job starts attempt 2"
    quiet = entry(1, e.NodeQuiet(job="job", epoch=1, node="n1"), why)
    assert [line.text for line in lines_of([quiet])] == ["job starts attempt 2"]
    assert [line.text for line in lines_of([quiet], whole=True)] == [
        "no earlier rank is left on n1",
        "job starts attempt 2",
    ]
    faster = entry(
        2, e.FasterSeen(job="job", epoch=2, best_step_s=0.5), "job is faster than ever: 0.5 s"
    )
    assert lines_of([faster]) == ()
    assert len(lines_of([faster], whole=True)) == 1


READY = e.RendezvousReady(
    job="job", epoch=2, node="n1", rendezvous=Rendezvous(address="n1", port=1)
)
STORED = e.CheckpointStored(job="job", epoch=2, node="n1", step=7)


@pytest.mark.parametrize(
    ("event", "restated"),
    [
        (READY, "the rendezvous of attempt 2 listens on n1"),
        (READY, "the store of epoch 2 listens on n1"),
        (STORED, "the checkpoint of step 7 is in the store"),
        (STORED, "step 7 is in the store"),
        (e.NodeQuiet(job="job", epoch=2, node="n1"), "no earlier rank is left on n1"),
        (e.NodeQuiet(job="job", epoch=2, node="n1"), "n1 is quiet"),
    ],
)
def test_a_journal_in_the_words_of_an_older_driver_is_told_alike(
    event: e.Event, restated: str
) -> None:
    told = entry(1, event, f"{restated}; job starts epoch 2 from step 7 in store")
    assert [line.text for line in lines_of([told])] == ["job starts epoch 2 from step 7 in store"]


@pytest.mark.parametrize("words", ["the furthest so far", "further than ever"])
def test_a_step_that_was_never_reached_before_is_seen_and_not_decided(words: str) -> None:
    event = e.ProgressSeen(job="job", epoch=2, step=7)
    (line,) = lines_of([entry(1, event, f"job completed step 7, {words}")])
    assert line.seen


def test_what_had_passed_before_a_fault_was_found_is_part_of_what_it_cost() -> None:
    hang = Incident(
        id=1,
        opened=1,
        kind=Kind.HANG,
        blame=Blame.UNKNOWN,
        found_s=100.0,
        stalled_s=5.0,
        summary="rank 3 holds the job up",
        suspended_s=100.25,
        resumed_s=101.0,
    )
    assert timeline(hang) == {"detect": 5.0, "stop": 0.25, "step": 0.75}


def test_rounds_of_one_test_are_told_together() -> None:
    results = (
        DiagnosticResult(id="d", test="compute", node="n1", ok=True, value=11.94, unit="GFLOP/s"),
        DiagnosticResult(
            id="d", test="compute", node="n1", round=1, ok=True, value=12.25, unit="GFLOP/s"
        ),
        DiagnosticResult(
            id="d", test="allreduce", node="n1", members=("n1", "n2"), ok=False, detail="late"
        ),
    )
    ended = entry(1, e.DiagnosticEnded(node="n1", id="d", results=results), "")
    (line,) = lines_of([ended], ())
    assert (
        line.text == "compute: 11.94 GFLOP/s, then 12.25 GFLOP/s; allreduce with n2: failed, late"
    )


@pytest.mark.parametrize(("starts_s", "told"), [(1.5, 1), (2.5, 2)])
def test_a_store_that_is_searched_for_no_second_is_not_waited_for(
    starts_s: float, told: int
) -> None:
    quiet = e.NodeQuiet(job="job", epoch=2, node="n1")
    why = "job waits: its checkpoint store is still being searched: nothing found so far"
    searched = entry(1, quiet, why)
    started = msgspec.structs.replace(entry(2, quiet, "job starts attempt 2"), now=starts_s)
    assert len(lines_of([searched, started])) == told
    assert len(lines_of([searched, started], whole=True)) == 2
    assert len(lines_of([searched])) == 1, "it waits still"


def left(epoch: int, step: int) -> e.RanksExited:
    """Rank 1 ends with exit code 0; its peer dies of it, but for the last attempt."""
    early = RankStatus(rank=1, state="exited", exit_code=0, step=step)
    return e.RanksExited(job="job", epoch=epoch, node="n1", exits=(early,))


def test_each_end_with_exit_code_0_that_was_a_fault_is_told_when_it_came() -> None:
    """An incident has the evidence of all its faults, and opened at the first; the same end of an
    attempt that came right is none."""
    said = "rank 1 on n1 ended with exit code 0 after step {} while others train (uneven data?)"
    evidence = tuple(Evidence(source="executor of n1", text=said.format(n)) for n in (29, 9))
    incident = Incident(
        id=1,
        opened=2,
        kind=Kind.ENDED_EARLY,
        blame=Blame.USER,
        found_s=2.0,
        summary=evidence[0].text,
        evidence=evidence,
        faults=2,
    )
    entries = [
        entry(1, left(1, 29)),
        entry(2, e.Ticked(), f"{evidence[0].text}: restart the ranks", incident=1),
        entry(3, left(2, 9)),
        entry(4, e.Ticked(), f"{evidence[1].text}: restart the ranks", incident=1),
        entry(5, left(3, 9)),
    ]
    told = [(line.sequence, line.text) for line in lines_of(entries, [incident])]
    assert told == [
        (1, evidence[0].text),
        (2, "restart the ranks"),
        (3, evidence[1].text),
        (4, "restart the ranks"),
    ]
