"""What the choice of the next step must not do to a healthy job, nor for ever."""

import pytest
from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.evidence import book
from holdfast.driver.core.job.move_on_suspicion import may_move
from holdfast.driver.core.recovery.case_of import rate_of, version_before
from holdfast.driver.core.state.census import Census
from holdfast.driver.core.state.fact import (
    About,
    Act,
    Bearing,
    Fact,
    FaultClass,
    Hypothesis,
    OfVersion,
)
from holdfast.driver.core.state.model import Phase
from holdfast.driver.core.state.versions import Version
from holdfast.driver.core.turn import Turn
from holdfast.protocol.faults import Blame

HOUR = e.Budget(restarts=1, window_s=3_600)


def recovers(life, **more: object) -> None:
    """All answer, until it runs again or is over."""
    for _ in range(6):
        if life.phase in (Phase.RUNNING, Phase.FAILED):
            return
        life.answer(**more)
        if life.job.exam is not None:
            life.tests_end()


@pytest.mark.parametrize("restarts", [0, 1, 3])
def test_losses_of_nodes_are_paid_and_end_a_job_once_its_budget_is_used(training, restarts) -> None:
    budget = e.Budget(restarts=restarts, window_s=3_600)
    life = training(nodes=2, spare=8, infrastructure=budget)
    for _ in range(restarts):
        life.now += 100
        life.lose(life.job.places[1])
        recovers(life)
        assert life.phase is Phase.RUNNING
    life.now += 100
    life.lose(life.job.places[1])
    assert life.phase is Phase.FAILED
    assert "for infrastructure faults" in life.job.failure.reason


def with_versions(life) -> None:
    """It runs its second version, and the first ran well."""
    (first,) = life.job.versions
    other = replace(first.plan, task=replace(first.plan.task, command=("train", "--new")))
    second = Version(number=2, plan=other, at_s=life.now)
    life.state.jobs["job"] = replace(life.job, versions=(first, second))
    life.dies(1, signal=9)
    recovers(life)
    assert life.job.history[-1].version == 2


def test_a_fault_is_of_the_version_that_ran_and_not_of_one_that_has_yet_to_run(training) -> None:
    life = training()
    with_versions(life)
    life.dies(1, signal=11, own_step=9)
    assert [fact.about.version for fact in life.job.facts if fact.fault] == [1, 2]


def test_what_is_tried_at_the_end_of_a_budget_is_tried_once(training) -> None:
    life = training(infrastructure=HOUR)
    with_versions(life)
    for step in range(2, 8):
        if life.phase is Phase.FAILED:
            break
        life.dies(1 + step % 2, signal=11, own_step=step)
        recovers(life)
        life.progress(step)
    assert life.phase is Phase.FAILED
    assert [fact.done for fact in life.job.facts].count(Act.VERSION_BEFORE) == 1
    assert [each.number for each in life.job.versions] == [1, 2, 3]


def test_a_version_that_was_left_for_its_faults_is_not_gone_back_to(training) -> None:
    life = training(infrastructure=e.Budget(restarts=30, window_s=3_600))
    with_versions(life)
    for step in range(40, 60):
        life.dies(1 + step % 3, signal=11, own_step=step // 2)
        recovers(life)
        if life.phase is Phase.FAILED:
            break
    commands = [each.plan.task.command for each in life.job.versions]
    assert commands == [("train",), ("train", "--new"), ("train",)]


def test_code_that_crashes_takes_its_one_place_through_no_cluster(training) -> None:
    life = training(nodes=1, spare=8)
    for step in range(2, 40):
        life.now += 100
        life.dies(0, signal=11, own_step=step)
        recovers(life)
        life.progress(step)
    assert life.phase is Phase.RUNNING
    assert len(life.moved) <= 2


def test_what_followed_a_job_to_another_node_accuses_the_first_no_more(training) -> None:
    life = training(nodes=3, spare=2)
    for _ in range(3):
        life.dies(2, signal=11, own_step=40)
        recovers(life)
    assert life.moved == ["n1"]
    facts = life.state.nodes["n1"].record.facts
    assert Bearing.ACCUSES in {fact.bearing for fact in facts}
    life.dies(2, signal=11, own_step=40)
    facts = life.state.nodes["n1"].record.facts
    assert Bearing.ACCUSES not in {fact.bearing for fact in facts}
    assert book.blamed(facts, 0.0) == [], "it was only left"


def fault(life, node: str, ago_s: float) -> Fact:
    subject = life.state.nodes[node].subject
    return Fact(
        subject=life.job.subject,
        what="rank-crashed",
        bearing=Bearing.CONTEXT,
        at_s=life.now - ago_s,
        about=About(job="job", version=1, node=subject, place=1),
        fault=FaultClass.DIED,
        held_for=Hypothesis.PASSING,
        done=Act.RESTART,
    )


@pytest.mark.parametrize(("ago_s", "rung"), [(book.DAY_S, 3), (2 * book.HALF_LIFE_S, 1)])
def test_a_fault_of_two_weeks_ago_says_nothing_of_a_node(training, ago_s, rung) -> None:
    life = training(nodes=4, spare=1)
    life.now += 30 * book.DAY_S
    job = replace(life.job, facts=(fault(life, "n1", ago_s),))
    life.state.jobs["job"] = job
    life.dies(2, signal=11, own_step=500)
    assert life.incident.rung == rung


def test_what_a_job_without_a_store_has_trained_is_not_given_up_for_two_deaths(training) -> None:
    life = training(nodes=3, spare=1)
    first = life.job.epoch
    life.progress(5_000)
    starts = []
    for _ in range(3):
        life.dies(2, signal=11)
        recovers(life, snapshots=[(5_000, first)])
        starts.append(life.job.restore and life.job.restore.step)
    assert starts == [5_000, 5_000, 5_000]


def test_what_was_paid_counts_though_the_job_got_on_since(training) -> None:
    life = training(user=e.Budget(restarts=2, window_s=3_600))
    for rank, step in ((1, 10), (2, 20), (1, 30)):
        life.dies(rank, exception="ValueError", own_step=step)
        recovers(life)
        life.progress(step + 1)
    assert life.phase is Phase.FAILED
    assert "All 2 restarts for user faults" in life.job.failure.reason


def faults_of(life, version: int, every_s: float, count: int) -> None:
    """Passing ones, each on another node and at another step."""
    for k in range(count):
        life.now += every_s
        life.progress((life.job.best_step or 0) + 1)
        life.dies(k % 8, signal=9, own_step=100 * version + k)
        recovers(life)


def test_passing_faults_of_a_week_do_not_take_an_edit_back(training) -> None:
    life = training(nodes=8, ranks_per_node=1)
    faults_of(life, 1, 30 * 3_600.0, 3)
    with_versions(life)
    faults_of(life, 2, 30 * 3_600.0, 6)
    assert [each.number for each in life.job.versions] == [1, 2]
    assert life.job.versions[0].ran_s == pytest.approx(90 * 3_600.0, rel=0.1)
    table = life.incident.table
    (version,) = [each for each in table.rows if each.hypothesis is Hypothesis.VERSION]
    assert version.why.startswith("that may be chance: ")


def test_an_edit_that_makes_faults_come_more_often_is_taken_back(training) -> None:
    life = training(nodes=8, ranks_per_node=1)
    faults_of(life, 1, 30 * 3_600.0, 3)
    with_versions(life)
    faults_of(life, 2, 1_200.0, 3)
    assert [each.number for each in life.job.versions] == [1, 2, 3]
    assert life.job.versions[2].by == "version 1"


def test_deaths_and_what_its_script_says_count_together_against_an_edit(training) -> None:
    life = training(nodes=8, ranks_per_node=1)
    faults_of(life, 1, 30 * 3_600.0, 3)
    with_versions(life)
    for rank, end in enumerate(({"signal": 11}, {"exception": "RuntimeError: stale"}) * 2):
        if len(life.job.versions) > 2:
            break
        life.now += 1_200.0
        life.progress((life.job.best_step or 0) + 1)
        life.dies(rank, own_step=200 + rank, **end)
        recovers(life)
    assert [each.number for each in life.job.versions] == [1, 2, 3]
    own = [fact.fault for fact in life.job.facts if fact.fault and fact.about.version == 2]
    assert own == [FaultClass.DIED, FaultClass.SAID], "one of each is enough"


def left_a_lemon(training, nodes: int):
    """A job that has left the one node on which its ranks died again and again."""
    life = training(nodes=nodes, ranks_per_node=1, spare=4)
    bad, step = life.job.places[-1], 200
    while bad in life.job.places:
        step += 1
        life.now += 1_800
        life.progress(step)
        life.dies(nodes - 1, signal=11, own_step=step)
        recovers(life)
    return life


@pytest.mark.parametrize("nodes", [8, 16, 64])
def test_after_a_lemon_a_fault_that_passes_is_no_other_nodes(training, nodes) -> None:
    life = left_a_lemon(training, nodes)
    for rank in (2, 4, 5):
        life.now += book.DAY_S
        life.progress(300 + rank)
        life.dies(rank, signal=11, own_step=300 + rank)
        assert life.incident.table.chosen is Hypothesis.PASSING
        recovers(life)
    assert len(life.moved) == 1


def edited(training, *, nodes: int, spare: int, restarts: int = 30):
    """A job that ran well for three days, then a person gave it another version."""
    budget = e.Budget(restarts=restarts, window_s=3_600)
    life = training(nodes=nodes, spare=spare, ranks_per_node=1, infrastructure=budget)
    life.now += 3 * book.DAY_S
    life.do(e.SuspendRequested(job="job"))
    life.answer()
    for node in life.state.nodes:
        life.do(e.NodeReleased(node=node))
    assert life.phase is Phase.SUSPENDED
    (first,) = life.job.versions
    other = replace(first.plan, task=replace(first.plan.task, command=("train", "--new")))
    second = Version(number=2, plan=other, at_s=life.now)
    life.state.jobs["job"] = replace(life.job, versions=(first, second))
    life.do(e.ResumeRequested(job="job"))
    recovers(life)
    life.progress(100)
    return life


def test_an_edit_is_not_taken_back_for_nodes_that_were_lost(training) -> None:
    life = edited(training, nodes=8, spare=8)
    for place in range(3):
        life.now += 1_200
        life.progress(101 + place)
        life.lose(life.job.places[place])
        recovers(life)
    life.now += 1_200
    life.progress(110)
    life.dies(5, signal=9, own_step=110)
    assert life.incident.table.chosen is Hypothesis.PASSING
    assert [each.number for each in life.job.versions] == [1, 2]


def test_an_edit_is_not_taken_back_for_a_lemon_that_was_left(training) -> None:
    life = edited(training, nodes=8, spare=4)
    bad = life.job.places[-1]
    for step in range(101, 105):
        life.now += 1_800
        life.progress(step)
        life.dies(7 if bad in life.job.places else 3, signal=11, own_step=step)
        recovers(life)
    assert bad not in life.job.places
    assert life.incident.table.chosen is Hypothesis.PASSING
    assert [each.number for each in life.job.versions] == [1, 2]


def test_what_was_dropped_for_its_number_is_not_taken_for_time_without_faults(training) -> None:
    """Of what the job had earned only the latest is kept, of what it had not a whole day."""
    life = training(nodes=2)
    life.now += book.DAY_S
    one = fault(life, "n1", 20 * book.HOUR_S)
    paid = replace(one, payer=Blame.INFRASTRUCTURE)
    earned = [replace(one, at_s=one.at_s + 120.0 * k, earned=True) for k in range(1, 601)]
    facts = book.kept((paid, *earned), life.now, paid_s=book.DAY_S)
    assert facts[0] == paid
    assert book.known_since_s(facts, life.now, book.DAY_S) == earned[-book.KEPT].at_s


def test_ranks_that_die_while_they_start_have_earned_no_restart(training) -> None:
    """However long their start takes: the incident before is over, and they did not get on."""
    life = training(nodes=4)
    life.progress(1_000)
    life.dies(2, signal=11, own_step=10)
    recovers(life)
    life.dies(3, signal=11, own_step=11)  # before it is as far as it was
    for _ in range(4):
        life.now += 100
        life.answer(runs=False)
        life.dies(1, signal=11)
    assert len(life.state.incidents) == 2
    assert len(life.job.facts) > 2
    assert not any(fact.earned for fact in life.job.facts)


def test_a_clock_that_is_put_back_takes_nothing_from_the_time_that_a_version_ran(training) -> None:
    life = edited(training, nodes=8, spare=0)
    life.now -= 4 * book.HOUR_S
    life.dies(3, signal=9, own_step=110)
    recovers(life)
    assert life.job.ran_s(life.job.version, life.now) >= 0


def test_what_was_earned_is_no_part_of_a_budget_that_is_used_up(training) -> None:
    life = training(nodes=4, infrastructure=e.Budget(restarts=2, window_s=book.DAY_S))
    for step in (10, 20):
        life.dies(step // 10, signal=11, own_step=step)
        recovers(life)
        life.progress(step + 1)
    for step in (30, 40, 50):
        life.now += 1_000
        life.dies(step // 10 % 4, signal=9, own_step=step)
        recovers(life)
        life.progress(step + 1)
    assert life.phase is Phase.RUNNING
    assert [fact.earned for fact in life.job.facts] == [False, False, True, True, True]


def test_what_was_paid_before_the_window_of_a_budget_counts_no_more(training) -> None:
    life = training(nodes=4, infrastructure=HOUR)
    for rank in (0, 3, 5):  # it never gets on, so that it earns nothing
        life.dies(rank, signal=9, own_step=10 + rank)
        recovers(life)
        life.now += 2 * book.HOUR_S
    assert life.phase is Phase.RUNNING
    assert life.paid == [Blame.INFRASTRUCTURE] * 3


def test_what_befell_another_machine_of_the_name_says_nothing_of_this_one(training) -> None:
    life = training(nodes=4, spare=1)
    life.now += 2 * book.DAY_S
    was, node = fault(life, "n1", book.DAY_S), life.state.nodes["n1"]
    life.state.jobs["job"] = replace(life.job, facts=(was,))
    life.state = replace(
        life.state, nodes={**life.state.nodes, "n1": replace(node, machine="another")}
    )
    life.census = Census()
    life.dies(2, signal=11, own_step=500)
    assert life.incident.table.chosen is Hypothesis.PASSING


def test_what_came_before_a_person_cleared_a_node_is_not_taken_for_another_nodes(training) -> None:
    """Its cable was replaced in vain: the node is left, and the script is not blamed."""
    life = training(nodes=3, spare=1, infrastructure=e.Budget(restarts=30, window_s=3_600))
    life.dies(2, signal=11, own_step=40)
    recovers(life)
    life.do(e.NodeFactTold(node="n1", words="cable replaced", says="clears"))
    while "n1" in life.job.places:
        life.dies(2, signal=11, own_step=40)
        recovers(life)
    assert life.phase is Phase.RUNNING
    assert life.moved == ["n1"]
    assert "on another node" not in str(life.state.incidents)


def test_a_job_may_have_another_machine_under_the_name_of_one_that_it_left(training) -> None:
    life = training(nodes=3, spare=1)
    life.do(e.NodeAppeared(node="n1", machine="first"))
    for _ in range(3):
        life.dies(2, signal=11, own_step=40)
        recovers(life)
    assert life.moved == ["n1"]
    life.do(e.NodeReleased(node="n1"))
    assert not may_move(Turn(life.state, life.now, life.policy), life.job, "n2")
    life.do(e.NodeAppeared(node="n1", machine="another"))
    assert may_move(Turn(life.state, life.now, life.policy), life.job, "n2")


def noted(life, *, done: Act = Act.RESTART, by: str = "", **more: object) -> Fact:
    """Of its second version, by no node."""
    about = About(job="job", version=2)
    one = replace(fault(life, "n1", 0.0), about=about, done=done, by=by, **more)
    return replace(one, subject=OfVersion(job="job", number=2))


def test_what_a_month_of_faults_does_not_make_forgotten(training) -> None:
    """That a version was left for its faults, and what people said for or against one."""
    life = training(nodes=2)
    left = noted(life, done=Act.VERSION_BEFORE)
    said = noted(life, by="alice", bearing=Bearing.ACQUITS, fault=None)
    idle = noted(life, by="alice", fault=None)
    many = [replace(left, done=Act.RESTART, at_s=life.now + 60 * k) for k in range(book.KEPT)]
    soon, late = life.now + book.DAY_S, life.now + 60 * book.DAY_S
    for now in (soon, late):
        facts = book.kept((left, said, idle, *many), now)
        assert [each for each in facts if each not in many] == [left, said]


def test_who_left_a_link_has_not_left_all_that_names_no_node(training) -> None:
    life = training(nodes=2)
    with_versions(life)
    moved = noted(life, done=Act.MOVE_COLD, held_for=Hypothesis.LINK)
    life.state.jobs["job"] = replace(life.job, facts=(moved, noted(life)))
    life.now += 60
    turn = Turn(life.state, life.now, life.policy)
    assert rate_of(turn, life.job, FaultClass.DIED, 2).faults == 1


def test_a_job_that_is_allowed_no_restart_is_not_started_with_the_version_before(training) -> None:
    life = edited(training, nodes=4, spare=1, restarts=0)
    life.dies(2, signal=9, own_step=100)
    assert life.phase is Phase.FAILED
    assert [each.number for each in life.job.versions] == [1, 2]


def test_code_of_one_node_that_crashes_on_the_next_as_well_accuses_none(training) -> None:
    """At other steps each time: else jobs with one mistake, each under a name of its own, would
    put a good node into quarantine."""
    life = training(nodes=1, spare=4)
    first = life.job.host
    for step in range(2, 8):
        life.now += 100
        life.dies(0, signal=11, own_step=step)
        accused = book.accusers(life.state.nodes[first].record.facts, life.now)
        assert accused == (1 if step in (4, 5, 6) else 0), step
        recovers(life)
        life.progress(step)
    assert life.job.host != first
    assert life.blamed(first) == []


def test_a_version_of_another_size_is_not_gone_back_to(training) -> None:
    """It has as many ranks as the nodes that it holds now."""
    life = training(nodes=3)
    with_versions(life)
    first, second = life.job.versions
    assert version_before(life.job) == 1
    wider = replace(first, plan=replace(first.plan, nodes=4))
    assert version_before(replace(life.job, versions=(wider, second))) is None


def test_what_was_proved_of_a_node_stays_where_a_fault_followed_the_job(training) -> None:
    """And what a person said of it."""
    life = training(nodes=3, spare=2)
    for _ in range(3):
        life.dies(2, signal=11, own_step=40)
        recovers(life)
    node = life.state.nodes["n1"]
    accused = next(each for each in node.record.facts if each.bearing is Bearing.ACCUSES)
    proved = replace(accused, bearing=Bearing.CONVICTS)
    said = replace(accused, by="alice")
    node = replace(node, record=replace(node.record, facts=(accused, proved, said)))
    life.state = replace(life.state, nodes={**life.state.nodes, "n1": node})
    life.dies(2, signal=11, own_step=40)
    assert life.state.nodes["n1"].record.facts == (proved, said)
