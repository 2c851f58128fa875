"""A fault that comes before its job is as far as it was: an incident of its own where it is one."""

import pytest

from holdfast.driver.adapters.rest.views import incident_view
from holdfast.driver.core import events as e
from holdfast.driver.core.state.restore_point import Tainted
from holdfast.driver.core.turn import Decision
from holdfast.driver.people.story import lines_of
from holdfast.driver.ports import Entry
from holdfast.protocol.faults import Evidence, Finding, Kind, Weight

STANDS = "no step since step 120 for 5.0 s"


def stands(life, rank: int = 0, *, step: int | None = 120, **more: object) -> e.Found:
    """A rank that has stood for 5 s is found, as it is when its process was stopped."""
    finding = Finding(
        **{"kind": Kind.HANG, "weight": Weight.RESTART, "job": "job", "rank": rank}
        | {"node": "n0", "epoch": life.job.epoch, "step": step}
        | {"stalled_s": 5.0, "summary": f"rank {rank} holds the job up"}
        | {"evidence": (Evidence(source="detector", text=STANDS),)}
        | more
    )
    return e.Found(finding=finding)


@pytest.fixture
def behind(training):
    """Rank 1 of two died at step 160; the next attempt began at step 100, and has gone on."""
    life = training(nodes=1)
    life.progress(2)
    first = life.job.epoch
    life.dies(1, signal=11, step=160)
    life.answer(stored=[(100, first)])
    life.now += 10
    return life


def stops(life) -> None:
    """Rank 0 is stopped at step 120, which is found, looked at and cured."""
    life.do(stands(life))
    life.wait(until_s=life.now + life.policy.stacks_s)
    life.answer(stored=[(100, life.job.history[0].epoch)])


def both(life):
    return [incident_view(life.state.incidents[number]) for number in (1, 2)]


def test_each_has_its_rank_and_its_evidence(behind) -> None:
    stops(behind)
    first, second = both(behind)
    assert (first.rank, first.kind, first.faults) == (1, "rank-crashed", 1)
    assert (second.rank, second.kind, second.faults) == (0, "hang", 1)
    assert "no step" not in " ".join(piece.text for piece in first.evidence)
    assert "SIGSEGV" not in " ".join(piece.text for piece in second.evidence)
    assert (first.open, first.overtaken, second.open, second.overtaken) == (
        *(False, True),
        *(True, False),
    )


def test_no_time_and_no_step_is_lost_to_both(behind) -> None:
    began_s = behind.state.incidents[1].found_s
    stops(behind)
    behind.progress(161)
    first, second = both(behind)
    assert first.down_s + second.down_s == pytest.approx(behind.now - began_s)
    assert first.down_s == pytest.approx(10.0 - 5.0, abs=0.2), "until the rank was stopped"
    assert (first.steps_lost, second.steps_lost) == (60, 20)
    assert not second.open


def test_the_standstill_and_the_stop_of_the_second_are_its_own(behind) -> None:
    stops(behind)
    first, second = both(behind)
    assert first.stages_s["stop"] < 1
    assert "detect" not in first.stages_s
    assert second.stages_s["detect"] == 5.0


def test_what_ranks_did_between_two_faults_of_an_incident_is_no_stage_of_its_recovery(
    training,
) -> None:
    life = training(nodes=1)
    life.progress(2)
    life.dies(1, signal=9, step=160)
    life.answer()
    life.now += 60.0
    life.dies(1, signal=9, step=150)
    life.answer()
    (view,) = (incident_view(each) for each in life.state.incidents.values())
    assert (view.open, view.faults) == (True, 2)
    assert sum(view.stages_s.values()) < 5.0
    life.now += 20.0
    life.progress(171)
    (view,) = (incident_view(each) for each in life.state.incidents.values())
    assert view.stages_s["step"] == pytest.approx(20.0, abs=1.0)
    assert view.down_s > 80.0, "what was trained in vain is lost, too"


def test_what_came_before_counts_for_what_comes_next(behind) -> None:
    stops(behind)
    assert len(behind.job.facts) == 2


def test_steps_that_count_from_each_start_are_lost_once(life) -> None:
    life.node("n0")
    life.submit(nodes=1)
    life.answer()
    life.do(e.ProgressSeen(job="job", epoch=life.job.epoch))
    for lost in (160, 20):
        life.dies(1, signal=11) if lost == 160 else life.do(stands(life, step=20))
        life.wait(until_s=life.now + life.policy.stacks_s)
        life.answer()
        life.do(e.StepsRepeated(job="job", epoch=life.job.epoch, since=0, before=160))
        assert life.incident.steps_lost == lost


def test_an_incident_that_is_only_caught_up_with_ends_as_the_next_fault_begins(behind) -> None:
    behind.wait(until_s=behind.now + behind.policy.settle_s + 1)
    assert not behind.state.incidents[1].open
    ran_until_s = behind.now - 5.0
    behind.do(stands(behind, 1, step=150))
    assert behind.state.incidents[1].resumed_s == pytest.approx(ran_until_s, abs=0.1)
    behind.wait(until_s=behind.now + behind.policy.stacks_s)
    behind.answer(stored=[(100, behind.job.history[0].epoch)])
    behind.progress(161)
    assert behind.state.incidents[2].steps_lost == 50


def test_an_incident_ends_no_sooner_than_its_ranks_ran_again(behind) -> None:
    stood_s = behind.now + 60
    behind.do(stands(behind, stalled_s=stood_s))
    first = behind.state.incidents[1]
    assert (first.overtaken, first.resumed_s) == (True, first.restored_s)


def test_an_incident_that_was_overtaken_while_caught_up_with_does_not_end_again(behind) -> None:
    behind.wait(until_s=behind.now + behind.policy.settle_s + 1)
    assert behind.job.repeating == 1
    stops(behind)
    ended_s = behind.state.incidents[1].resumed_s
    behind.now += 20
    behind.progress(161)
    assert behind.state.incidents[1].resumed_s == ended_s


def test_steps_below_those_that_a_job_began_again_from_are_lost_to_the_next(behind) -> None:
    behind.dies(0, signal=11)
    behind.answer(stored=[(50, behind.job.history[0].epoch)])
    assert [incident.steps_lost for incident in behind.state.incidents.values()] == [60, 50]


@pytest.fixture
def pair(life):
    """Jobs `a` and `b` lost a node each at about the same time, and begin again from step 0."""
    for number in range(4):
        life.node(f"n{number}")
    for name in ("a", "b"):
        life.submit(name, nodes=1)
        life.answer(name)
        life.progress(100, name)
    lost = [life.state.jobs[name].places[0] for name in ("a", "b")]
    for node in lost:
        life.lose(node)
    for name in ("a", "b"):
        life.answer(name)
        epoch = life.state.jobs[name].epoch
        life.do(e.StepsRepeated(job=name, epoch=epoch, since=0, before=100))
    assert life.state.incident_count == 1
    return life


@pytest.mark.parametrize("first", ["the other job comes back", "the fault"])
def test_an_incident_by_which_a_job_came_back_is_not_overtaken_by_another_jobs_fault(
    pair, first
) -> None:
    if first == "the fault":
        pair.dies(1, name="a", signal=11)
    pair.now += 5
    pair.progress(101, "b")
    back_s = pair.now
    if first != "the fault":
        pair.dies(1, name="a", signal=11)
    assert pair.state.jobs["a"].incident == 2
    incident = pair.state.incidents[1]
    assert (incident.open, incident.overtaken, incident.resumed_s) == (False, False, back_s)


def test_an_incident_is_overtaken_once_each_of_its_jobs_was_hit_anew(pair) -> None:
    pair.dies(1, name="a", signal=11)
    assert (pair.state.incidents[1].overtaken, pair.state.incidents[1].resumed_s) == (False, None)
    pair.now += 5
    pair.dies(1, name="b", signal=11)
    incident = pair.state.incidents[1]
    assert (incident.open, incident.overtaken) == (False, True)
    assert incident.resumed_s == pytest.approx(pair.now, abs=1.0)


def test_an_incident_of_which_a_job_still_catches_up_is_not_overtaken(pair) -> None:
    pair.wait(until_s=pair.now + pair.policy.settle_s + 1)
    assert pair.state.jobs["a"].repeating == 1
    pair.dies(1, name="b", signal=11)
    pair.progress(101, "a")
    incident = pair.state.incidents[1]
    assert (incident.overtaken, incident.resumed_s) == (False, pair.now)


SAME = {
    "the same rank": lambda life: life.dies(1, signal=9),
    "the same mistake in another rank": lambda life: life.dies(0, exception="ValueError"),
    "a standstill of nobody": lambda life: life.do(stands(life, node=None, rank=None)),
    "a rank that lost a peer": lambda life: life.dies(0, echo=True),
}


@pytest.mark.parametrize("happens", SAME.values(), ids=SAME.keys())
def test_what_may_have_the_same_cause_joins(training, happens) -> None:
    life = training(nodes=1)
    life.dies(1, exception="ValueError")
    life.answer()
    happens(life)
    assert life.state.incident_count == 1
    assert incident_view(life.incident).faults == 2
    assert incident_view(life.incident).latest != life.incident.summary


def test_the_same_end_at_the_same_step_joins_whichever_rank_it_is(training) -> None:
    life = training(nodes=1)
    life.dies(1, signal=6, own_step=10)
    life.answer()
    life.dies(0, signal=6, own_step=10)
    assert life.state.incident_count == 1


def test_a_rank_that_memory_may_have_spoiled_joins(training) -> None:
    life = training(nodes=1)
    life.dies(1, signal=11)
    life.answer(snapshots=[(1, life.job.history[0].epoch)])
    life.dies(0, signal=11)
    assert life.state.incident_count == 1
    life.answer(snapshots=[(1, life.job.history[0].epoch)])
    life.dies(0, signal=11)
    assert [type(point.status) for point in life.job.points] == [Tainted]
    assert life.state.incident_count == 1


def test_another_suspect_of_the_same_joins(training) -> None:
    life = training(nodes=1)
    for rank in (1, 0):
        life.do(stands(life, rank, weight=Weight.SUSPECT))
        life.wait(until_s=life.now + life.policy.stacks_s)
        life.answer()
        if life.job.exam is not None:
            life.tests_end()
            life.answer()
    assert life.state.incident_count == 1


def test_what_comes_while_stacks_are_taken_joins(behind) -> None:
    behind.do(stands(behind, node=None, rank=None))
    assert behind.job.held is not None
    behind.dies(0, signal=9)
    assert behind.state.incident_count == 1


def test_before_ranks_run_again_whatever_comes_joins(training) -> None:
    life = training(nodes=2)
    life.dies(1, signal=9)
    life.lose("n1")
    assert life.state.incident_count == 1


def test_evidence_that_joins_is_told_when_it_came(training) -> None:
    life, entries = training(nodes=1), []
    decide = life.do

    def does(event: e.AnyEvent, **more: float) -> Decision:
        done = decide(event, **more)
        told = {"why": done.why, "incident": done.incident, "jobs": done.jobs}
        place = {"sequence": done.state.sequence, "term": 1, "policy": 1, "now": life.now}
        entries.append(Entry(event=event, effects=done.effects, at=f"{life.now}", **place, **told))
        return done

    life.do = does
    life.dies(1, signal=11)
    life.answer()
    life.do(stands(life, node=None, rank=None, summary="it stands"))
    lines = lines_of(entries, life.state.incidents.values())
    seen = [(line.text, line.verdict) for line in lines if line.source]
    assert seen == [("rank 1 on n0 died of SIGSEGV", ""), (STANDS, "it stands")]
