"""Each standby is tested when it comes; one that fails goes, and training hears nothing of it."""

import pytest
from msgspec.structs import replace

from holdfast.driver.batch.deadlines import next_deadline
from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Distrust
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.model import Exam, Phase, Purpose, State
from holdfast.driver.core.state.node import Node, Suspect
from holdfast.driver.formats.encode import decode, encode
from holdfast.protocol.faults import Blame, Finding, Kind, Weight
from holdfast.protocol.messages import DiagnosticResult


def is_under_test(life, node: Node) -> bool:
    exam = life.state.exams.get(node.exam or "")
    return exam is not None and exam.purpose is Purpose.STANDBY


def under_test(life) -> list[str]:
    return [name for name, node in life.state.nodes.items() if is_under_test(life, node)]


def results(life, node: str, *, ok: bool | None = True, wrong: bool = False, gflops: float = 50.0):
    """What the node's self-test gave, both times."""
    test = life.state.exams[life.state.nodes[node].exam]
    return e.DiagnosticEnded(
        node=node,
        id=test.id,
        results=tuple(
            DiagnosticResult(
                id=order.id, test=order.test, node=node, round=order.round, members=order.members,
                ok=ok, wrong=wrong, value=gflops if ok else None,
                detail="" if ok else "7 of 9 elements are wrong",
            )
            for order in test.orders[node]
        ),
    )  # fmt: skip


def bad(life, node: str):
    return results(life, node, ok=False, wrong=True)


def fails(life, node: str, **given) -> None:
    """Twice, and whoever is tested beside it passes."""
    wrong = {"ok": False, "wrong": True} | given
    while (exam := life.state.exams.get(life.state.nodes[node].exam)) is not None:
        helpers = [results(life, name) for name in exam.orders if name != node]
        life.do(results(life, node, **wrong))
        for told in helpers:
            life.do(told)


def comes(life, node: str) -> None:
    """A standby that was asked for: its executor is there, and has taken the job's epoch."""
    life.do(e.NodeAllocated(job="job", node=node))
    life.do(e.NodeQuiet(job="job", epoch=life.job.epoch, node=node))


@pytest.fixture
def tested(training):
    """n2 stands by for a job of two nodes and tests itself; n3 is free."""
    life = training(standbys=1, spare=1)
    assert under_test(life) == ["n2"]
    return life


# ---------------------------------------------------------------- when, and what


def test_a_standby_is_tested_alone_once_it_is_there_and_its_job_trains(life) -> None:
    for name in ("n0", "n1", "n2"):
        life.node(name)
    life.submit(standbys=1)
    assert under_test(life) == []
    life.answer()
    assert life.phase is Phase.RUNNING
    assert {(test.test, test.members) for test in life.told("n2").diagnostics} == {("compute", ())}
    assert life.told("n2").epoch == life.job.epoch
    assert "standby n2 tests itself" in life.whys[-1]


def test_nothing_is_asked_of_one_that_is_not_quiet_yet(training) -> None:
    life = training(standbys=1)
    life.lose("n2")
    life.node("n3")
    life.do(e.NodeAllocated(job="job", node="n3"))
    assert life.job.standbys == ("n3",)
    assert under_test(life) == []
    life.do(e.NodeQuiet(job="job", epoch=life.job.epoch, node="n3"))
    assert under_test(life) == ["n3"]


def test_a_job_without_standbys_tests_nobody(training) -> None:
    life = training(spare=1)
    assert not [f for f in life.effects if getattr(f, "desired", None) and f.desired.diagnostics]


def test_where_the_policy_says_so_standbys_are_not_tested(life) -> None:
    life.policy = Policy(standby_test_s=0.0)
    for name in ("n0", "n1", "n2"):
        life.node(name)
    life.submit(standbys=1)
    life.answer()
    assert under_test(life) == []


def test_the_boxes_of_its_test_end_within_what_the_job_gives_a_diagnosis(training) -> None:
    life = training(standbys=1, diagnose_s=3.0)
    assert [test.time_box_s for test in life.told("n2").diagnostics] == [1.5, 1.5]


# ---------------------------------------------------------------- what comes of it


def test_one_that_passes_stands_by_and_is_not_tested_again(tested) -> None:
    life, epoch = tested, tested.job.epoch
    assert life.do(results(life, "n2")).why == "standby n2 passed its self-test"
    assert life.told("n2").diagnostics == ()
    assert (life.job.standbys, life.phase, life.job.epoch) == (("n2",), Phase.RUNNING, epoch)
    life.progress(2)
    assert under_test(life) == []
    assert life.state.incidents == {}


@pytest.mark.parametrize("given", [{"ok": None}, {"ok": False}], ids=["not run", "out of time"])
def test_what_could_not_be_measured_or_took_too_long_is_no_proof_against_it(tested, given) -> None:
    why = tested.do(results(tested, "n2", **given)).why
    assert why.startswith("standby n2 could not be tested (compute n2: ")
    assert tested.job.standbys == ("n2",)
    assert (tested.evicted, tested.state.incidents, under_test(tested)) == ([], {}, [])


def test_a_test_without_a_result_is_over_in_time(tested) -> None:
    tested.wait(until_s=tested.now + tested.policy.standby_test_s - 1)
    assert under_test(tested) == ["n2"]
    tested.wait(until_s=tested.now + 2)
    assert under_test(tested) == []
    why = "standby n2 could not be tested (no result came in time) and stands by untested"
    assert why in tested.whys
    assert tested.job.standbys == ("n2",)


@pytest.mark.parametrize(("named", "evicted"), [(0.0, []), (20.0, ["n2"])])
def test_slowness_alone_convicts_only_by_a_named_threshold(training, named, evicted) -> None:
    life = training(standbys=1, spare=1, node_class={"compute_gflops": named})
    fails(life, "n2", ok=True, wrong=False, gflops=0.1)
    assert life.evicted == evicted


def test_one_that_fails_is_evicted_and_the_next_is_tested_while_the_ranks_go_on(tested) -> None:
    life, before = tested, tested.job
    fails(life, "n2")
    assert life.evicted == ["n2"]
    (mark,) = life.ordered(Distrust)
    assert (mark.node, mark.reason) == ("n2", "the compute of n2 failed its self-test")
    assert life.job.standbys == ("n3",)
    comes(life, "n3")
    assert under_test(life) == ["n3"]
    life.do(results(life, "n3"))
    same = ("epoch", "attempt", "phase", "seats", "facts", "places", "incident")
    assert all(getattr(life.job, name) == getattr(before, name) for name in same)


def test_the_incident_of_one_that_fails_names_it_and_its_part_and_is_closed(tested) -> None:
    fails(tested, "n2")
    incident = tested.incident
    assert (incident.kind, incident.blame) == (Kind.DIAGNOSTIC_FAILED, Blame.INFRASTRUCTURE)
    assert (incident.node, incident.evicted, incident.jobs) == ("n2", ("n2",), ("job",))
    assert "compute n2: 7 of 9 elements are wrong" in [each.text for each in incident.evidence]
    assert not incident.open
    assert tested.job.incident is None


def test_one_wrong_product_of_two_does_not_convict(tested) -> None:
    event = bad(tested, "n2")
    first = replace(event.results[0], ok=True, wrong=False, value=50.0)
    tested.do(replace(event, results=(first, event.results[1])))
    assert tested.evicted == []
    held = tested.state.nodes["n2"].held
    assert held
    assert held.tested


def test_who_failed_once_is_tested_again_beside_a_healthy_node(tested) -> None:
    life = tested
    first = life.state.exams[life.state.nodes["n2"].exam]
    assert first.accused == (), "nothing speaks against it"
    why = life.do(bad(life, "n2")).why
    assert why == "n2 failed, and nothing else speaks against it: tested again beside n3"
    exam = life.state.exams[life.state.nodes["n2"].exam]
    assert set(exam.orders) == {"n2", "n3"}
    assert exam.accused == ("n2",), "by the first"
    assert (life.evicted, life.job.standbys, life.phase) == ([], ("n2",), Phase.RUNNING)
    for name in exam.orders:
        life.do(results(life, name))
    assert life.whys[-1] == "standby n2 passed its self-test"
    assert (life.evicted, life.state.incidents, life.job.failed_standbys) == ([], {}, 0)


def test_where_nobody_is_there_beside_it_it_is_a_suspect_and_not_evicted(training) -> None:
    life = training(standbys=1)
    epoch = life.job.epoch
    life.do(bad(life, "n2"))
    node = life.state.nodes["n2"]
    assert isinstance(node.trust, Suspect)
    assert "nobody else is there to be tested beside it" in node.trust.why
    assert (life.evicted, life.ordered(Distrust), life.job.standbys) == ([], [], ())
    assert (life.phase, life.job.epoch, life.job.failed_standbys) == (Phase.RUNNING, epoch, 1)


def test_where_the_other_standby_fails_too_it_is_the_test_and_nobody_is_convicted(training) -> None:
    """Both have the job's image, and its library is broken."""
    life = training(standbys=2)
    life.do(results(life, "n3"))
    life.do(bad(life, "n2"))
    for name in ("n2", "n3"):
        life.do(bad(life, name))
    assert life.evicted == []
    assert "could not be tested (2 of 2 nodes failed: more likely the test" in life.whys[-1]


@pytest.mark.parametrize(
    ("own", "foreign", "evicted"), [(2, 0, ["n2"]), (1, 1, ["n2"]), (0, 2, [])]
)
def test_only_fellows_of_its_job_say_how_fast_it_has_to_be(
    training, own: int, foreign: int, evicted: list[str]
) -> None:
    """What one on another kind of machine reaches says nothing."""
    life = training(standbys=1 + own, spare=foreign)
    for name in life.job.standbys[1:]:
        life.do(results(life, name))
    life.do(bad(life, "n2"))
    exam = life.state.exams[life.state.nodes["n2"].exam]
    assert set(exam.orders) == {"n2", "n3", "n4"}
    told = [results(life, name, gflops=0.1 if name == "n2" else 50.0) for name in exam.orders]
    for each in told:
        life.do(each)
    assert life.evicted == evicted


def test_a_recovery_ends_its_second_test_and_it_begins_anew_with_the_first(tested) -> None:
    life = tested
    life.do(bad(life, "n2"))
    late = bad(life, "n2")
    life.dies(0, signal=9)
    life.do(late)
    assert life.evicted == []
    life.answer()
    exam = life.state.exams[life.state.nodes["n2"].exam]
    assert (set(exam.orders), exam.second) == ({"n2"}, False)


def test_who_is_silent_the_second_time_while_its_partners_waited_in_vain_is_bad(training) -> None:
    life = training(standbys=1, spare=2)
    life.do(bad(life, "n2"))
    exam = life.state.exams[life.state.nodes["n2"].exam]
    for name in ("n3", "n4"):
        told = results(life, name)
        heard = tuple(
            replace(each, ok=False) if "n2" in order.members else each
            for each, order in zip(told.results, exam.orders[name], strict=True)
        )
        life.do(replace(told, results=heard))
    life.wait(until_s=life.now + life.policy.standby_test_s + 1)
    assert life.evicted == ["n2"]


# ---------------------------------------------------------------- brakes


@pytest.mark.parametrize("held", ["brake", "dry-run"])
def test_where_nobody_is_evicted_it_is_only_left_out_and_stays_one_incident(tested, held) -> None:
    life = tested
    if held == "brake":
        life.do(e.BrakeApplyRequested(reason="to be sure"))
    else:
        life.policy = replace(life.policy, dry_run=True)
    fails(life, "n2")
    assert life.evicted == []
    assert life.job.standbys == ("n3",), "it rests, and the other takes its turn"
    life.lose("n3")
    life.do(e.NodeReleased(node="n2"))
    life.wait(until_s=life.now + life.policy.rest_s + 1)
    assert life.job.standbys == ("n2",)
    comes(life, "n2")
    fails(life, "n2")
    kinds = [incident.kind for incident in life.state.incidents.values()]
    assert kinds.count(Kind.DIAGNOSTIC_FAILED) == 1
    assert not any(incident.open for incident in life.state.incidents.values())


def test_a_test_that_fails_everywhere_does_not_take_every_node(training) -> None:
    life = training(standbys=1, spare=3)
    fails(life, "n2")
    comes(life, "n3")
    fails(life, "n3")
    assert "more likely the test than the nodes" in life.whys[-1]
    comes(life, "n4")
    assert under_test(life) == []
    assert life.evicted == ["n2", "n3"]
    assert life.job.standbys == ("n4",)


def test_one_that_passes_shows_that_the_test_is_good(training) -> None:
    life = training(standbys=1, spare=3)
    fails(life, "n2")
    comes(life, "n3")
    life.do(results(life, "n3"))
    life.lose("n3")
    comes(life, "n4")
    fails(life, "n4")
    comes(life, "n5")
    assert under_test(life) == ["n5"]


# ---------------------------------------------------------------- in the middle of it


def test_a_place_takes_one_under_test_rather_than_none_and_ends_its_test(tested) -> None:
    life, late = tested, bad(tested, "n2")
    life.lose("n1")
    assert life.job.places == ("n0", "n2")
    assert life.told("n2").diagnostics == ()
    life.do(late)
    assert life.evicted == ["n1"]
    life.answer()
    assert life.phase is Phase.RUNNING


def test_a_place_takes_one_that_passed_first(training) -> None:
    life = training(standbys=2)
    assert under_test(life) == ["n2", "n3"]
    life.do(results(life, "n3"))
    life.lose("n1")
    assert life.job.places == ("n0", "n3")


def test_a_recovery_has_the_node_to_itself_and_the_test_comes_after_it(tested) -> None:
    life, late = tested, bad(tested, "n2")
    life.dies(0, signal=9)
    assert under_test(life) == []
    assert life.told("n2").diagnostics == ()
    life.do(late)
    assert life.evicted == []
    life.answer()
    assert life.phase is Phase.RUNNING
    assert under_test(life) == ["n2"]


def test_in_a_diagnosis_of_its_job_it_runs_those_tests_alone(tested) -> None:
    life = tested
    finding = Finding(
        kind=Kind.HANG, weight=Weight.SUSPECT, job="job", node="n1", epoch=life.job.epoch
    )
    life.do(e.Found(finding=finding))
    life.wait(until_s=life.now + life.policy.stacks_s)
    life.do(e.NodeQuiet(job="job", epoch=life.job.epoch, node="n2"))
    life.answer()
    assert life.phase is Phase.DIAGNOSING
    assert {test.id for test in life.told("n2").diagnostics} == {life.job.exam}


def test_a_new_executor_is_tested_anew_and_results_of_the_old_one_are_late(tested) -> None:
    life, late = tested, bad(tested, "n2")
    life.do(results(life, "n2"))
    life.connect("n2", "n2-second")
    assert under_test(life) == ["n2"]
    life.do(late)
    assert life.evicted == []


def test_one_that_is_lost_in_its_test_is_lost_and_no_more(tested) -> None:
    life, late = tested, bad(tested, "n2")
    life.lose("n2")
    assert under_test(life) == []
    assert life.incident.kind is Kind.NODE_LOST
    assert life.job.standbys == ("n3",)
    assert life.do(late).idle


def test_one_that_left_and_comes_back_is_tested_again(tested) -> None:
    life = tested
    life.do(results(life, "n2"))
    life.do(e.NodeMaintainRequested(node="n2", reason="new fan"))
    comes(life, "n3")
    life.do(results(life, "n3"))
    life.do(e.NodeReleased(node="n2"))
    life.do(e.NodeRestoreRequested(node="n2", reason="done"))
    life.lose("n3")
    comes(life, "n2")
    assert under_test(life) == ["n2"]


@pytest.mark.parametrize("over", ["stopped", "done"])
def test_with_its_job_the_test_is_over(tested, over) -> None:
    late = bad(tested, "n2")
    if over == "stopped":
        tested.do(e.StopRequested(job="job"))
    else:
        tested.ends_well()
    assert under_test(tested) == []
    tested.do(late)
    assert tested.evicted == []


def test_a_driver_that_takes_over_goes_on_with_the_test(tested) -> None:
    life, before = tested, tested.told("n2")
    life.state = decode(encode(life.state))
    life.do(e.DriverStarted(term=2))
    assert (life.told("n2").diagnostics, life.told("n2").term) == (before.diagnostics, 2)
    for name in ("n0", "n1", "n2", "n3"):
        life.connect(name, f"{name}-first")
    fails(life, "n2")
    assert life.evicted == ["n2"]


def test_a_state_from_before_there_were_self_tests_is_read_and_its_standby_tested(tested) -> None:
    life = tested
    old = replace(life.state.nodes["n2"], exam=None)
    assert b"exam" not in encode(State(nodes={"n2": old}))
    life.state = decode(encode(replace(life.state, nodes={**life.state.nodes, "n2": old})))
    life.progress(5)
    assert under_test(life) == ["n2"]


def test_the_driver_is_asked_again_when_a_test_is_out_of_time() -> None:
    exam = Exam(
        id="standby.1", purpose=Purpose.STANDBY, until_s=7.0, orders={"n0": ()}, suspects=("n0",)
    )
    state = State(nodes={"n0": Node(name="n0", exam=exam.id)}, exams={exam.id: exam})
    assert next_deadline(state) == 7.0
