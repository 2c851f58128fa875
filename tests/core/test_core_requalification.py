"""Evicted nodes are tested and come back by themselves; what a person evicted does not."""

import pytest
from msgspec.structs import replace

from holdfast.driver.batch.deadlines import next_deadline
from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Allocate, HoldForExam, Release, Trust
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.model import Phase, State
from holdfast.driver.core.state.node import Here, Lent, Node, Quarantined, Record
from holdfast.driver.core.state.orders import calls_for
from holdfast.driver.formats.encode import decode, encode
from holdfast.driver.people.admission import refuse
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import DiagnosticResult

WAIT_S = Policy().requalify_after_s


def convict(life, node: str) -> None:
    """It has a fault of its own, the cluster takes note, and it is given back."""
    text = f"XID 79 on {node}"
    finding = Finding(kind=Kind.KERNEL_FAULT, weight=Weight.CONCLUSIVE, node=node, summary=text)
    life.do(e.Found(finding=finding))
    assert life.state.nodes[node].quarantined
    if life.state.nodes[node].releasing:
        life.do(e.NodeReleased(node=node))
    life.do(e.NodeDistrusted(node=node))


def waits(life, seconds: float) -> None:
    life.wait(until_s=life.now + seconds)


def in_exam(life) -> list[str]:
    return [name for name, node in life.state.nodes.items() if isinstance(node.holding, Lent)]


def results(life, node: str, *, ok: bool | None = True, gflops: float = 50.0):
    """All tests of the node's trial are over."""
    trial = life.state.exams[life.state.nodes[node].exam]
    return e.DiagnosticEnded(
        node=node,
        id=trial.id,
        results=tuple(
            DiagnosticResult(
                id=order.id, test=order.test, node=node, round=order.round, ok=ok, value=gflops,
                detail="" if ok else "wrong product",
            )
            for order in trial.orders[node]
        ),
    )  # fmt: skip


@pytest.fixture
def tried(training):
    """n1 was evicted from a job of two nodes and is in its exam; n2 has its place."""
    life = training(spare=1, node_class={"compute_gflops": 20.0}, spec=b"{}")
    convict(life, "n1")
    life.answer()
    waits(life, WAIT_S + 1)
    assert in_exam(life) == ["n1"]
    return life


def test_an_evicted_node_is_tested_after_a_while_alone_and_without_a_job(training) -> None:
    life = training(spare=1, spec=b"all of it")
    convict(life, "n1")
    life.answer()
    waits(life, WAIT_S - 1)
    assert life.ordered(HoldForExam) == []
    waits(life, 2)
    (order,) = life.ordered(HoldForExam)
    assert (order.node, order.job, order.spec) == ("n1", "job", b"all of it")
    told = life.told("n1")
    assert told.job is None
    assert {test.test for test in told.diagnostics} == {"compute"}
    assert life.state.nodes["n1"].quarantined


def test_a_node_that_passes_is_used_again_without_a_person(tried) -> None:
    life = tried
    life.submit("next", nodes=1)
    assert life.state.jobs["next"].phase is Phase.PENDING
    decision = life.do(results(life, "n1"))
    assert [type(effect) for effect in decision.effects[:2]] == [Release, Trust]
    assert "n1 passed its tests and is trusted again" in decision.why
    assert life.told("n1").diagnostics == ()
    assert life.state.jobs["next"].phase is Phase.PENDING, "its executor is not given back yet"
    life.do(e.NodeReleased(node="n1"))
    life.do(e.NodeTrusted(node="n1"))
    assert life.state.jobs["next"].places == ("n1",)


def test_a_node_that_fails_stays_out_and_waits_twice_as_long_each_time(tried) -> None:
    life = tried
    for wait_s in (2 * WAIT_S, 4 * WAIT_S):
        decision = life.do(results(life, "n1", ok=False))
        assert f"compute n1: wrong product) and stays out; the next tests are in {wait_s:g} s" in (
            decision.why
        )
        assert [type(effect) for effect in decision.effects[:1]] == [Release]
        assert not life.ordered(Trust)
        life.do(e.NodeReleased(node="n1"))
        waits(life, wait_s - 1)
        assert in_exam(life) == []
        waits(life, 2)
        assert in_exam(life) == ["n1"]


def test_a_wait_that_was_asked_for_is_not_cut_short(tried) -> None:
    tried.policy = replace(tried.policy, requalify_after_s=3 * WAIT_S, requalify_longest_s=WAIT_S)
    tried.do(results(tried, "n1", ok=False))
    assert tried.state.nodes["n1"].record.exam_wait_s == 3 * WAIT_S


def test_the_wait_is_never_longer_than_the_longest(tried) -> None:
    tried.policy = replace(tried.policy, requalify_longest_s=WAIT_S + 50)
    tried.do(results(tried, "n1", ok=False))
    tried.do(e.NodeReleased(node="n1"))
    waits(tried, WAIT_S + 51)
    assert in_exam(tried) == ["n1"]


@pytest.mark.parametrize(("gflops", "trusted"), [(21.0, True), (19.0, False)])
def test_what_it_has_to_reach_is_what_its_job_asks_of_a_node(tried, gflops, trusted) -> None:
    tried.do(results(tried, "n1", gflops=gflops))
    assert tried.state.nodes["n1"].quarantined is not trusted


@pytest.mark.parametrize(("gflops", "trusted"), [(6.0, True), (4.0, False)])
def test_alone_it_has_to_reach_what_it_was_convicted_by(training, gflops, trusted) -> None:
    """Half of what its fellows reach, where its job asks for nothing."""
    life = training(spare=1, spec=b"{}")
    epoch = life.job.epoch
    finding = Finding(kind=Kind.HANG, weight=Weight.SUSPECT, job="job", node="n1", epoch=epoch)
    life.do(e.Found(finding=finding))
    life.wait(until_s=life.now + life.policy.stacks_s)
    life.answer()
    life.tests_end(bad="n1")
    life.do(e.NodeReleased(node="n1"))
    life.do(e.NodeDistrusted(node="n1"))
    waits(life, WAIT_S + 1)
    life.do(results(life, "n1", gflops=gflops))
    assert life.state.nodes["n1"].quarantined is not trusted


def test_a_trial_whose_executor_was_ended_by_others_says_nothing_about_the_node(tried) -> None:
    tried.do(e.ExecutorEnded(job="", node="n1", why="pod holdfast-trial-n1-7 is gone"))
    assert in_exam(tried) == []
    assert tried.state.nodes["n1"].record.exam_wait_s == WAIT_S


def test_a_trial_of_which_nothing_could_be_run_does_not_double_the_wait(tried) -> None:
    """On a loaded machine the tests of a healthy node ended before they had begun."""
    decision = tried.do(results(tried, "n1", ok=None))
    assert "n1 could not be tested" in decision.why
    assert tried.state.nodes["n1"].record.exam_wait_s == WAIT_S
    assert tried.state.nodes["n1"].quarantined
    tried.do(e.NodeReleased(node="n1"))
    waits(tried, WAIT_S + 1)
    assert in_exam(tried) == ["n1"]


def test_tests_that_could_not_be_run_do_not_clear_a_node(tried) -> None:
    tried.do(results(tried, "n1", ok=None))
    assert tried.state.nodes["n1"].quarantined


def test_a_node_that_passes_and_is_convicted_again_waits_twice_as_long(tried) -> None:
    life = tried
    life.do(results(life, "n1"))
    life.do(e.NodeReleased(node="n1"))
    life.do(e.NodeTrusted(node="n1"))
    life.submit("next", nodes=1)
    convict(life, "n1")
    waits(life, 2 * WAIT_S - 1)
    assert in_exam(life) == []
    waits(life, 2)
    assert in_exam(life) == ["n1"]


def test_a_persons_word_makes_an_end_of_all_that_was_against_it(tried) -> None:
    life = tried
    life.do(results(life, "n1", ok=False))
    life.do(e.NodeRestoreRequested(node="n1", reason="new board"))
    life.do(e.NodeReleased(node="n1"))
    life.submit("next", nodes=1)
    convict(life, "n1")
    waits(life, WAIT_S + 1)
    assert in_exam(life) == ["n1"]


def test_a_person_who_restores_a_node_in_the_middle_of_its_trial_is_obeyed(tried) -> None:
    late = results(tried, "n1", ok=False)
    decision = tried.do(e.NodeRestoreRequested(node="n1", reason="looked at"))
    assert [type(effect) for effect in decision.effects[:2]] == [Release, Trust]
    assert in_exam(tried) == []
    assert tried.do(late).idle
    assert not tried.state.nodes["n1"].quarantined


def test_what_a_person_evicted_no_machine_brings_back(training) -> None:
    life = training(spare=1)
    life.do(e.NodeEvictRequested(node="n1", reason="loud fan"))
    life.do(e.NodeReleased(node="n1"))
    life.do(e.NodeDistrusted(node="n1"))
    waits(life, 20 * WAIT_S)
    assert life.ordered(HoldForExam) == []
    assert refuse(life.state, e.NodeEvictRequested(node="n1", reason="x")).code == (
        "quarantined-node"
    )


def test_a_person_may_keep_out_what_a_machine_evicted(tried) -> None:
    life = tried
    out = e.NodeEvictRequested(node="n1", reason="to look at", by="ada")
    assert refuse(life.state, out) is None
    passed = results(life, "n1")
    why = life.do(out).why
    assert "ada wants n1 out: to look at; only a person restores it now" in why
    assert life.do(passed).idle
    life.do(e.NodeReleased(node="n1"))
    waits(life, 20 * WAIT_S)
    assert in_exam(life) == []
    assert life.state.nodes["n1"].quarantined


def test_who_wants_to_work_on_an_evicted_node_is_told_how_to_keep_it(training) -> None:
    life = training(spare=1)
    convict(life, "n1")
    work = e.NodeMaintainRequested(node="n1", reason="new board")
    assert "`holdfast nodes evict n1` keeps it" in str(refuse(life.state, work))
    life.do(e.NodeEvictRequested(node="n1", reason="new board"))
    assert "It is free to be worked on" in str(refuse(life.state, work))


def test_under_the_brake_there_are_no_exams_until_it_is_released(training) -> None:
    life = training(spare=1)
    convict(life, "n1")
    life.do(e.BrakeApplyRequested(reason="to be sure"))
    waits(life, 3 * WAIT_S)
    assert in_exam(life) == []
    life.do(e.BrakeReleaseRequested(reason="looked at"))
    waits(life, 0.1)
    assert in_exam(life) == ["n1"]


def test_one_node_at_a_time_is_in_exam_who_has_waited_longest_first(training) -> None:
    life = training(nodes=3, spare=3)
    convict(life, "n2")
    waits(life, 61)
    convict(life, "n1")
    waits(life, WAIT_S - 60)
    assert in_exam(life) == ["n2"]
    life.do(results(life, "n2"))
    waits(life, 61)
    assert in_exam(life) == ["n1"]


def test_a_node_that_is_lost_in_its_trial_is_no_incident_and_is_tried_when_it_is_back(
    tried,
) -> None:
    life, incidents = tried, len(tried.state.incidents)
    life.lose("n1")
    assert in_exam(life) == []
    assert len(life.state.incidents) == incidents
    assert life.phase is Phase.RUNNING
    life.do(e.NodeReleased(node="n1"))
    waits(life, 3 * WAIT_S)
    assert in_exam(life) == []
    life.node("n1")
    waits(life, 0.1)
    assert in_exam(life) == ["n1"]


def test_the_word_of_the_cluster_alone_ends_no_trial(tried) -> None:
    tried.do(e.NodeVanished(node="n1", why="its lease is over"))
    assert in_exam(tried) == ["n1"]
    tried.do(results(tried, "n1"))
    assert not tried.state.nodes["n1"].quarantined


def test_a_fault_of_its_own_in_the_middle_of_its_trial_decides_it(tried) -> None:
    passed = results(tried, "n1")
    finding = Finding(
        kind=Kind.KERNEL_FAULT, weight=Weight.CONCLUSIVE, node="n1", summary="XID 79 on n1"
    )
    why = tried.do(e.Found(finding=finding)).why
    assert why.startswith("n1 did not pass its tests (XID 79 on n1) and stays out")
    assert tried.do(passed).idle
    assert tried.state.nodes["n1"].quarantined


def test_a_trial_without_a_result_ends_in_time(tried) -> None:
    limit_s = tried.policy.connect_s + tried.job.plan.diagnose_s
    waits(tried, limit_s + 1)
    assert in_exam(tried) == []
    assert "n1 did not pass its tests (no result came in time)" in " ".join(tried.whys)
    assert tried.state.nodes["n1"].record.exam_wait_s == 2 * WAIT_S


def test_a_node_that_cannot_be_tested_waits_no_longer_for_it(tried) -> None:
    life = tried
    cause = life.state.nodes["n1"].told.called
    failed = e.AllocationFailed(job="job", node="n1", why="it is cordoned", cause=cause)
    why = life.do(failed).why
    assert f"n1 could not be tested (it is cordoned); the next tests are in {WAIT_S:g} s" in (why)
    assert life.do(failed).idle
    life.do(e.NodeReleased(node="n1"))
    waits(life, WAIT_S + 1)
    assert in_exam(life) == ["n1"]


def test_no_job_gets_a_node_that_is_on_trial(tried) -> None:
    tried.submit("next", nodes=1)
    tried.do(e.NodeAllocated(job="job", node="n1", cause=tried.state.nodes["n1"].told.called))
    waits(tried, 10)
    assert tried.state.nodes["n1"].job is None
    assert not [order for order in tried.ordered(Allocate) if order.job == "next"]


def test_a_driver_that_takes_over_goes_on_with_the_trial(tried) -> None:
    life = tried
    calls = [call for node in life.state.nodes.values() for call in calls_for(node)]
    (again,) = [each for each in calls if isinstance(each, HoldForExam)]
    assert again == life.ordered(HoldForExam)[0]
    life.state = decode(encode(life.state))
    before = life.told("n1")
    life.do(e.DriverStarted(term=2))
    assert life.ordered(HoldForExam)[-1] == again
    assert life.told("n1").diagnostics == before.diagnostics
    assert life.told("n1").term == 2
    life.connect("n1", "n1-first")
    life.do(results(life, "n1"))
    assert not life.state.nodes["n1"].quarantined


def test_a_node_that_no_job_had_when_it_was_evicted_is_a_persons_to_restore(training) -> None:
    life = training(spare=1)
    convict(life, "n2")
    waits(life, 20 * WAIT_S)
    assert in_exam(life) == []


def test_a_node_that_was_evicted_before_there_were_exams_waits_for_a_person() -> None:
    quarantine = Quarantined(why="", marked=True)
    record = Record(evicted_s=1.0)
    old = Node(name="n0", presence=Here(), trust=quarantine, record=record)
    state = decode(encode(State(nodes={"n0": old})))
    assert state.nodes["n0"] == old
    assert next_deadline(state) is None


def test_a_trial_that_a_node_passes_makes_no_room_for_further_evictions(training) -> None:
    life = training(nodes=2, spare=1)
    life.policy = Policy(requalify_after_s=1.0)
    convict(life, "n1")
    waits(life, 2)
    life.do(results(life, "n1"))
    life.do(e.NodeReleased(node="n1"))
    finding = Finding(kind=Kind.KERNEL_FAULT, weight=Weight.CONCLUSIVE, node="n0")
    life.do(e.Found(finding=finding))
    assert life.evicted == []
    assert life.state.brake.on
