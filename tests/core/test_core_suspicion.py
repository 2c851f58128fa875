"""A suspect is tested off the job: a warm standby has its place, and training goes on meanwhile."""

import pytest
from msgspec.structs import replace
from suspects import STORING, ends, hang, results, settle

from holdfast.driver.batch.deadlines import next_deadline
from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Allocate, Distrust, HoldForExam, Release
from holdfast.driver.core.job import move_on_suspicion
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Phase
from holdfast.driver.core.state.node import Free, Lent, Quarantined, Source, Suspect, Trusted
from holdfast.driver.core.testing import suspicion
from holdfast.driver.core.testing.off_the_job import following
from holdfast.driver.core.turn import Turn
from holdfast.driver.formats.encode import decode, encode
from holdfast.driver.journal.draft import Draft
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import DiagnosticResult


@pytest.fixture
def aside(training):
    """n1 of (n0, n1) is suspected; n2 stood by and has its place; n3 stands by then, n4 and n5 are
    free."""
    life = training(standbys=1, spare=3, spec=b"{}", task=STORING)
    life.answer()  # n2 is there, and has answered
    hang(life, "n1")
    return life


def test_the_job_trains_on_a_standby_while_the_suspect_is_tested_beside_free_nodes(aside) -> None:
    life = aside
    assert any("a warm standby takes its place" in why for why in life.whys)
    life.answer()
    assert (life.phase, life.job.places) == (Phase.RUNNING, ("n0", "n2"))
    assert life.job.exam is None
    settle(life)
    assert isinstance(life.state.nodes["n1"].holding, Lent)
    (order,) = life.ordered(HoldForExam)
    assert (order.node, order.job, order.spec) == ("n1", "job", b"{}")
    exam = life.state.exams[life.state.nodes["n1"].exam]
    assert set(exam.orders) == {"n1", "n4", "n5"}
    assert life.told("n4").diagnostics == exam.orders["n4"]
    assert life.evicted == []


def test_a_suspect_is_no_place_until_its_tests_are_over(aside) -> None:
    life = aside
    settle(life)
    assert not fits(Use.PLACE, None, life.state.nodes["n1"], life.now)
    ends(life, "n1")
    settle(life)
    node = life.state.nodes["n1"]
    assert (node.trust, node.exam) == (Trusted(), None)
    assert fits(Use.PLACE, None, node, life.now) or node.job is not None
    assert len(life.acquittals("n1")) == 1, "what found nothing is counted"


def test_a_suspect_that_fails_is_evicted_and_waits_for_its_next_tests(aside) -> None:
    life = aside
    settle(life)
    ends(life, "n1", bad=("n1",))
    trust = life.state.nodes["n1"].trust
    assert isinstance(trust, Quarantined)
    assert trust.why == "its compute failed the tests"
    assert trust.exam_s is not None
    assert life.evicted == ["n1"]
    assert life.phase is Phase.RUNNING or life.phase is Phase.RESTORING
    assert life.ordered(Distrust)


def test_a_helper_that_a_job_needs_leaves_the_exam_and_the_suspect_is_not_convicted_for_it(
    aside,
) -> None:
    life = aside
    settle(life)
    exam = life.state.exams[life.state.nodes["n1"].exam]
    helper = "n4"
    assert helper in exam.orders
    life.submit("other", nodes=1)
    asked = [order.node for order in life.ordered(Allocate) if order.job == "other"]
    assert asked == [helper]
    assert life.state.nodes[helper].exam is None
    orders = exam.orders["n1"]
    life.do(
        e.DiagnosticEnded(
            node="n1",
            id=exam.id,
            results=tuple(
                DiagnosticResult(
                    id=each.id, test=each.test, node="n1", round=each.round,
                    members=each.members, ok=not each.members, value=50.0,
                )
                for each in orders
            ),
        )
    )  # fmt: skip
    life.wait(until_s=life.now + 120)
    assert life.evicted == []


def test_a_suspect_of_whose_tests_nobody_tells_is_tried_twice_and_then_rests(aside) -> None:
    life = aside
    life.answer()  # and n3 stands by
    settle(life)
    for _ in range(2):
        assert isinstance(life.state.nodes["n1"].holding, Lent)
        life.wait(until_s=life.now + life.job.plan.diagnose_s + 1)
        life.do(e.NodeReleased(node="n1"))
        life.wait(until_s=life.now + life.policy.rest_s + 1)
    node = life.state.nodes["n1"]
    assert isinstance(node.trust, Trusted)
    assert life.acquittals("n1") == [], "what was not tested is no acquittal"
    assert life.evicted == []


def test_a_suspect_that_answers_nothing_while_its_helpers_tell_of_failures_is_convicted(
    aside,
) -> None:
    life = aside
    settle(life)
    exam = life.state.exams[life.state.nodes["n1"].exam]
    for member in exam.orders:
        if member != "n1":
            told = results(exam, member, bad=("n1",))
            life.do(e.DiagnosticEnded(node=member, id=exam.id, results=told))
    life.wait(until_s=life.now + life.job.plan.diagnose_s + 1)
    assert life.evicted == ["n1"]


def test_a_refusal_of_the_cluster_is_no_try(aside) -> None:
    life = aside
    life.answer()  # and n3 stands by
    settle(life)
    for _ in range(4):
        cause = life.state.nodes["n1"].told.called
        life.do(e.AllocationFailed(job="job", node="n1", why="no room", cause=cause))
        life.do(e.NodeReleased(node="n1"))
        life.wait(until_s=life.now + life.policy.rest_s + 1)
    assert isinstance(life.state.nodes["n1"].trust, Suspect)
    ends(life, "n1")
    assert isinstance(life.state.nodes["n1"].trust, Trusted)


def test_a_suspect_whose_helpers_left_is_not_cleared_by_what_it_says_alone(aside) -> None:
    life = aside
    settle(life)
    exam = life.state.exams[life.state.nodes["n1"].exam]
    for helper in ("n4", "n5"):
        incarnation = life.state.nodes[helper].incarnation
        life.do(e.ExecutorDisconnected(node=helper, incarnation=incarnation))
        life.connect(helper, f"{helper}-second")
    assert life.state.nodes["n4"].exam is None
    life.do(e.DiagnosticEnded(node="n1", id=exam.id, results=results(exam, "n1")))
    node = life.state.nodes["n1"]
    assert isinstance(node.trust, Suspect)
    assert life.acquittals("n1") == []


def test_while_the_brake_is_on_a_suspect_is_tested_and_only_rests_where_it_fails(aside) -> None:
    life = aside
    life.do(e.BrakeApplyRequested(reason="a look first"))
    settle(life)
    assert isinstance(life.state.nodes["n1"].holding, Lent)
    ends(life, "n1", bad=("n1",))
    node = life.state.nodes["n1"]
    assert isinstance(node.trust, Trusted)
    assert Source.REST in node.against
    assert life.evicted == []


def test_a_drain_that_is_withdrawn_meanwhile_does_not_keep_the_suspect(training) -> None:
    life = training(standbys=1, spare=3, task=STORING)
    life.answer()
    finding = Finding(
        kind=Kind.HANG, weight=Weight.SUSPECT, job="job", node="n1", rank=2, epoch=life.job.epoch,
        summary="rank 2 hangs", step=7,
    )  # fmt: skip
    life.do(e.Found(finding=finding))
    life.wait()
    assert life.job.leaving == ("n1",)
    life.do(e.NodeMaintainRequested(node="n1", reason="new kernel"))
    life.do(e.NodeRestoreRequested(node="n1", reason="no, n2"))
    assert isinstance(life.state.nodes["n1"].trust, Trusted) or life.job.leaving == ("n1",)
    life.answer()
    assert "n1" not in life.job.places


def test_where_the_last_step_cannot_be_saved_the_suspect_is_tested_in_its_place(training) -> None:
    life = training(standbys=1, spare=3, task=STORING)
    life.answer()
    old = life.job.epoch
    finding = Finding(
        kind=Kind.HANG, weight=Weight.SUSPECT, job="job", node="n1", rank=2, epoch=old,
        summary="rank 2 hangs", step=7,
    )  # fmt: skip
    life.do(e.Found(finding=finding))
    life.wait()
    began_s = life.now
    while life.phase is Phase.SUSPENDING and life.now < began_s + 200:
        life.answer(snapshots=[(7, old)], store_error="it hangs")
        life.wait()
    assert life.phase is Phase.DIAGNOSING
    assert life.job.places == ("n0", "n1"), "no step is risked for a suspicion"
    assert isinstance(life.state.nodes["n1"].trust, Trusted)
    assert life.now - began_s <= life.job.plan.diagnose_s + life.policy.quiet_s + 1


def test_two_that_have_to_be_left_need_two_warm_standbys(training) -> None:
    life = training(nodes=3, standbys=1, spare=3, task=STORING)
    life.answer()
    life.do(e.NodeMaintainRequested(node="n0", reason="new kernel"))
    life.state.jobs["job"]  # it trains on until another node is warm for n0
    warm = [name for name in life.job.standbys if life.state.nodes[name].allocated]
    hang(life, "n1")
    held = life.state.nodes["n1"]
    assert len(warm) > 1 or not (isinstance(held.trust, Suspect) and held.job == "job")


@pytest.mark.parametrize("gone", ["is gone for long", "is another machine"])
def test_what_was_suspected_of_a_machine_goes_with_it(aside, gone: str) -> None:
    life = aside
    life.do(e.NodeReleased(node="n1"))
    if gone == "is another machine":
        life.do(e.AllocationFailed(job="job", node="n1", why="x", cause=None))
        life.do(e.NodeReleased(node="n1"))
        life.do(e.NodeAppeared(node="n1", machine="one"))
        life.do(e.NodeAppeared(node="n1", machine="two"))
        assert isinstance(life.state.nodes["n1"].trust, Trusted)
        return
    incarnation = life.state.nodes["n1"].incarnation
    life.do(e.NodeVanished(node="n1"))
    life.do(e.ExecutorDisconnected(node="n1", incarnation=incarnation))
    for name, node in life.state.nodes.items():
        if node.releasing:
            life.do(e.NodeReleased(node=name))
    life.now += life.policy.forget_s + 1
    life.do(e.NodeVanished(node="n5"))
    assert "n1" not in life.state.nodes


def test_a_driver_that_takes_over_goes_on_with_the_exam(aside) -> None:
    life = aside
    settle(life)
    life.state = decode(encode(life.state))
    decision = life.do(e.DriverStarted(term=2))
    assert HoldForExam in map(type, decision.effects)
    for name in life.state.nodes:
        life.connect(name, f"{name}-first")
    ends(life, "n1", bad=("n1",))
    assert life.evicted == ["n1"]


def test_a_suspect_with_proof_against_it_needs_no_tests(aside) -> None:
    life = aside
    settle(life)
    finding = Finding(
        kind=Kind.KERNEL_FAULT, weight=Weight.CONCLUSIVE, node="n1", summary="XID 79 on n1"
    )
    life.do(e.Found(finding=finding))
    node = life.state.nodes["n1"]
    assert node.quarantined
    assert node.exam is None
    assert life.ordered(Release)[-1].node == "n1"
    assert node.quarantine.setup is not None, "it is tested again by itself"


@pytest.mark.parametrize("asked", ["evict", "restore"])
def test_a_persons_word_ends_the_exam(aside, asked: str) -> None:
    life = aside
    settle(life)
    kind = e.NodeEvictRequested if asked == "evict" else e.NodeRestoreRequested
    life.do(kind(node="n1", reason="known"))
    node = life.state.nodes["n1"]
    assert node.exam is None
    assert node.quarantined == (asked == "evict")
    settle(life)
    assert isinstance(life.state.nodes["n1"].holding, Free) or life.state.nodes["n1"].job


@pytest.mark.parametrize("lack", ["no standby", "nobody beside", "the brake is on", "no store"])
def test_else_the_job_stands_still_for_the_tests_as_before(training, lack: str) -> None:
    life = training(
        nodes=3,
        standbys=0 if lack == "no standby" else 1,
        spare=0 if lack == "nobody beside" else 2,
        **({} if lack == "no store" else {"task": STORING}),
    )
    life.answer()
    if lack == "the brake is on":
        life.do(e.BrakeApplyRequested(reason="a look first"))
    hang(life, "n1")
    assert life.phase is Phase.DIAGNOSING
    assert not isinstance(life.state.nodes["n1"].trust, Suspect)
    assert Source.REST not in life.state.nodes["n1"].against


def test_a_driver_that_only_says_whom_it_would_evict_tests_in_place(training) -> None:
    life = training(standbys=1, spare=3, task=STORING)
    life.answer()
    life.policy = replace(life.policy, dry_run=True)
    hang(life, "n1")
    assert life.phase is Phase.DIAGNOSING


def test_suspects_come_before_the_evicted(aside) -> None:
    life = aside
    suspect = life.state.nodes["n1"]
    assert isinstance(suspect.trust, Suspect)
    out = Quarantined(why="bad", marked=True, setup=suspect.trust.setup, exam_s=0.5)
    free = replace(suspect, holding=Free())
    evicted = replace(life.state.nodes["n5"], name="n0a", trust=out)
    nodes = {"n0a": evicted, "n1": free}
    assert [node.name for node in following(nodes, {}, life.state.brake)] == ["n1", "n0a"]


def test_what_came_from_a_node_that_left_an_exam_is_not_filed(aside) -> None:
    life = aside
    settle(life)
    exam = life.state.exams[life.state.nodes["n1"].exam]
    life.submit("other", nodes=1)
    assert life.state.nodes["n4"].exam is None
    life.do(e.DiagnosticEnded(node="n4", id=exam.id, results=results(exam, "n4")))
    assert "n4" not in life.state.exams[exam.id].results


def test_an_exam_that_has_lost_whom_it_is_about_is_dropped(aside) -> None:
    life = aside
    settle(life)
    life.do(e.NodeEvictRequested(node="n1", reason="known"))
    assert not [exam for exam in life.state.exams.values() if "n1" in exam.orders]
    assert life.state.nodes["n4"].exam is None


def test_a_defect_in_a_suspects_exam_puts_off_that_node_alone(
    aside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tick was refused for ever: its exam stayed due."""

    def broken(*_: object) -> None:
        raise KeyError("a defect of ours")

    life = aside
    monkeypatch.setattr("holdfast.driver.core.testing.off_the_job._hold", broken)
    for name, node in life.state.nodes.items():
        if node.releasing:
            life.do(e.NodeReleased(node=name))
    draft = Draft(state=life.state, now=life.now, at="", policy=life.policy)
    draft.add(e.Ticked())
    due_s = next_deadline(draft.state)
    assert due_s is None or due_s > life.now
    assert any("n1 is looked at again" in entry.why for entry in draft.entries)


def test_where_one_suspect_cannot_be_tested_now_the_next_is_in_the_same_tick(aside) -> None:
    """It stayed due, and the driver ticked for it again and again."""
    life = aside
    for name, node in life.state.nodes.items():
        if node.releasing:
            life.do(e.NodeReleased(node=name))
    first = life.state.nodes["n1"]
    assert isinstance(first.trust, Suspect)
    setup = replace(first.trust.setup, job="gone")
    due = replace(first.trust, exam_s=life.now)
    others = {
        "n1": replace(first, holding=Free(), exam=None, trust=due),
        "n4": replace(life.state.nodes["n4"], trust=replace(due, setup=setup)),
    }
    life.state = replace(life.state, nodes={**life.state.nodes, **others}, exams={})
    life.tick()
    due_s = next_deadline(life.state)
    assert due_s is None or due_s > life.now


# ---------------------------------------------------------------- what may come between


def test_who_wants_to_work_on_a_suspect_has_it_free_and_it_is_tested_afterwards(aside) -> None:
    life = aside
    settle(life)
    life.do(e.NodeMaintainRequested(node="n1", reason="new kernel"))
    settle(life)
    node = life.state.nodes["n1"]
    assert (type(node.trust), node.holding, node.exam) == (Suspect, Free(), None)
    life.wait(until_s=life.now + 10 * life.policy.rest_s)
    assert isinstance(life.state.nodes["n1"].holding, Free)
    life.do(e.NodeRestoreRequested(node="n1", reason="done"))
    assert isinstance(life.state.nodes["n1"].trust, Trusted)


def test_the_clusters_drain_ends_an_exam_and_its_end_begins_it_again(aside) -> None:
    life = aside
    settle(life)
    life.do(e.NodeAppeared(node="n1", notice="it is drained"))
    settle(life)
    assert life.state.nodes["n1"].holding == Free()
    life.do(e.NodeAppeared(node="n1"))
    life.wait(until_s=life.now + life.policy.rest_s + 1)
    assert isinstance(life.state.nodes["n1"].holding, Lent)
    ends(life, "n1")
    assert isinstance(life.state.nodes["n1"].trust, Trusted)


def test_an_executor_that_starts_anew_in_the_middle_is_no_failure(aside) -> None:
    """Its partners had run their tests with the one before: all that it tried failed then."""
    life = aside
    life.answer()  # and n3 stands by
    settle(life)
    exam = life.state.exams[life.state.nodes["n1"].exam]
    life.connect("n1", "n1-second")
    assert any("its executor started anew" in why for why in life.whys)
    for member in exam.orders:
        told = results(exam, member, bad=("n1",))
        life.do(e.DiagnosticEnded(node=member, id=exam.id, results=told))
    assert life.evicted == []
    settle(life)
    life.wait(until_s=life.now + life.policy.rest_s + 1)
    again = life.state.exams[life.state.nodes["n1"].exam]
    assert again.id != exam.id
    ends(life, "n1")
    assert isinstance(life.state.nodes["n1"].trust, Trusted)


def suspected(life, *names: str) -> None:
    """These too are out of jobs, and due."""
    setup = life.state.nodes["n1"].trust.setup
    due = Suspect(why="hangs", setup=setup, exam_s=life.now)
    more = {name: replace(life.state.nodes[name], trust=due) for name in names}
    life.state = replace(life.state, nodes={**life.state.nodes, **more})


def under_exam(life) -> list[str]:
    return [name for name, node in life.state.nodes.items() if isinstance(node.holding, Lent)]


def test_as_many_suspects_are_tested_at_once_as_there_are_healthy_nodes_for(aside) -> None:
    life = aside
    for k in range(6, 10):
        life.node(f"n{k}")
    suspected(life, "n8", "n9")
    settle(life)
    assert under_exam(life) == ["n1", "n8"], "n3 comes only yet; n4 to n7 help"
    assert set(life.state.nodes["n9"].trust.after) == set(life.state.exams)
    assert next_deadline(life.state) > life.now, "nothing is due until one of them ends"
    ends(life, "n8")
    life.do(e.Ticked())
    assert under_exam(life) == ["n1", "n9"]
    assert life.state.nodes["n9"].trust.tries == 0
    for name in ("n1", "n9"):
        ends(life, name)
    assert not any(isinstance(node.trust, Suspect) for node in life.state.nodes.values())


def test_who_waits_for_helpers_is_due_when_the_exam_before_is_over(aside) -> None:
    life = aside
    suspected(life, "n5")
    life.node("n6")
    settle(life)
    (first,) = under_exam(life)
    (second,) = {"n1", "n5"} - {first}
    life.do(e.NodeEvictRequested(node=first, reason="known"))
    settle(life)
    assert under_exam(life) == [second]


def test_an_evicted_node_is_on_trial_beside_the_exams_of_suspects(aside) -> None:
    life = aside
    out = Quarantined(
        why="bad", marked=True, setup=life.state.nodes["n1"].trust.setup, exam_s=life.now
    )
    life.node("n6")
    life.state = replace(
        life.state,
        nodes={**life.state.nodes, "n6": replace(life.state.nodes["n6"], trust=out)},
    )
    settle(life)
    assert under_exam(life) == ["n1", "n6"]


def test_who_waits_for_helpers_waits_on_once_the_exam_before_has_its_executor(aside) -> None:
    life = aside
    life.silence("n1")
    settle(life)
    assert life.state.exams[life.state.nodes["n1"].exam].orders == {"n1": ()}
    suspected(life, "n5")
    life.node("n6")
    life.tick()
    waits = life.state.nodes["n5"].trust.after
    life.connect("n1", "n1-first")
    exam = life.state.exams[life.state.nodes["n1"].exam]
    assert set(exam.orders) == {"n1", "n4", "n6"}
    assert waits == (exam.id,)
    life.tick()
    assert under_exam(life) == ["n1"]


def _turn(life, **changes) -> Turn:
    """Of what may be decided now."""
    turn = Turn(life.state, life.now, life.policy)
    turn.job("job", **changes)
    return turn


def test_a_standby_takes_over_what_is_left_besides_first(training) -> None:
    life = training(nodes=3, standbys=1, task=STORING)
    life.answer()
    turn = _turn(life)
    assert suspicion.takes_over(turn, turn.jobs["job"], "n1") == ["n3"]
    turn = _turn(life, leaving=("n0",))
    assert suspicion.takes_over(turn, turn.jobs["job"], "n1") == []


def test_no_standby_takes_over_that_the_job_moved_off_itself(training) -> None:
    life = training(standbys=1, task=STORING)
    life.answer()
    turn = _turn(life)
    assert suspicion.takes_over(turn, turn.jobs["job"], "n1") == ["n2"]
    move_on_suspicion.leave_place(turn, "job", "n2")
    job = turn.job("job", leaving=())
    assert suspicion.takes_over(turn, job, "n1") == []


@pytest.mark.parametrize("spare", [1, 2])
def test_who_takes_the_place_does_not_help_with_the_tests(training, spare: int) -> None:
    life = training(standbys=1, spare=spare, task=STORING)
    life.answer()
    ends(life, "n2")  # its test of itself
    turn = _turn(life)
    assert suspicion.may_begin(turn, turn.jobs["job"], "n1") is (spare == 2)
