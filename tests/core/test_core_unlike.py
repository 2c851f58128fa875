"""A rank that dies inside a collective is not blamed where another one was in the wrong one."""

from typing import Any

from holdfast.driver.core import events as e
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.faults import Blame, Finding, Kind, Weight

TEXT = "rank 3 called broadcast of another size than its peers as collective #57 of group [0, 1]"


def unlike(
    life: Any, *, epoch: int | None = None, kind: Kind = Kind.COLLECTIVE_MISMATCH
) -> e.Found:
    return e.Found(
        finding=Finding(
            kind=kind,
            weight=Weight.REPORT,
            job="job",
            epoch=epoch or life.job.epoch,
            node="n1",
            rank=3,
            summary=TEXT,
        )
    )


def judged(life: Any) -> None:
    life.wait(until_s=life.now + life.policy.gather_s)


def test_the_odd_one_is_the_root_where_it_is_told_while_a_death_waits(training) -> None:
    life = training()
    life.dies(0, signal=6, judged=False)
    life.dies(1, echo=True, exception="RuntimeError", judged=False)
    life.do(unlike(life))
    judged(life)
    incident = life.incident
    assert (incident.kind, incident.rank, incident.blame) == (
        Kind.COLLECTIVE_MISMATCH, 3, Blame.USER,
    )  # fmt: skip
    assert incident.summary == TEXT
    assert "rank 0 on n0 died of SIGABRT" in [each.text for each in incident.evidence]
    assert life.blamed("n0") == life.blamed("n1") == []
    assert life.paid == [Blame.USER]


def test_it_is_the_root_where_it_was_told_before(training) -> None:
    life = training()
    life.do(unlike(life))
    assert life.phase is Phase.RUNNING, "it is only reported"
    life.dies(0, signal=6, judged=False)
    judged(life)
    assert (life.incident.kind, life.incident.rank) == (Kind.COLLECTIVE_MISMATCH, 3)


def test_where_nothing_is_told_in_time_who_aborted_is_named(training) -> None:
    life = training()
    life.dies(0, signal=6)
    assert (life.incident.kind, life.incident.rank) == (Kind.RANK_CRASHED, 0)


def test_an_end_of_another_kind_is_judged_at_once_and_is_its_own(training) -> None:
    life = training()
    life.do(unlike(life))
    life.dies(2, exception="ValueError")
    assert (life.incident.kind, life.incident.rank) == (Kind.USER_EXCEPTION, 2)


def test_a_rank_without_peers_waits_for_nobodys_word(training) -> None:
    life = training(nodes=1, ranks_per_node=1)
    life.dies(0, signal=6, judged=False)
    judged(life)
    assert (life.incident.kind, life.incident.rank) == (Kind.RANK_CRASHED, 0)


def test_what_was_said_of_an_older_attempt_explains_nothing(training) -> None:
    life = training()
    life.do(unlike(life))
    life.dies(0, signal=6)
    life.answer()
    assert life.job.unlike is None
    life.do(unlike(life, epoch=1))
    life.dies(0, signal=6)
    assert life.incident.evidence[-1].text == "rank 0 on n0 died of SIGABRT"
    assert life.job.unlike is None


def test_the_same_mismatch_at_the_same_place_ends_the_job(training) -> None:
    life = training(nodes=1)
    for _ in range(2):
        life.do(unlike(life))
        life.dies(0, signal=6, own_step=10)
        if life.phase is not Phase.FAILED:
            life.answer()
    assert life.phase is Phase.FAILED


def test_what_the_job_went_on_after_explains_nothing(training) -> None:
    life = training()
    life.do(unlike(life))
    life.do(unlike(life, kind=Kind.GOES_ON))
    life.dies(0, signal=6)
    assert (life.incident.kind, life.incident.rank) == (Kind.RANK_CRASHED, 0)
