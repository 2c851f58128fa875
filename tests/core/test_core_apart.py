"""Two nodes that cannot reach each other are not seated together, and neither is accused."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Distrust
from holdfast.driver.core.evidence import book
from holdfast.driver.core.job import candidates
from holdfast.driver.core.policy import Policy
from holdfast.driver.core.state.fact import About, Act, Bearing
from holdfast.driver.core.state.model import Phase, State
from holdfast.driver.core.state.node import Node
from holdfast.driver.core.turn import Turn
from holdfast.driver.formats.encode import decode, encode
from holdfast.lab.simulator.scenario import Fault, Scenario, SimJob
from holdfast.lab.simulator.simulate import play
from holdfast.protocol.faults import Blame, Evidence, Finding, Kind, Weight


def apart(life, first: str, second: str, *, one_way: bool = False) -> None:
    evidence = (Evidence(source=f"daemon of {first}", text="no answer"),)
    finding = Finding(
        kind=Kind.UNREACHABLE,
        weight=Weight.SUSPECT,
        job="job",
        epoch=life.job.epoch,
        apart=(first, second),
        one_way=one_way,
        summary=f"{first} and {second} cannot reach each other",
        evidence=evidence,
    )
    life.do(e.Found(finding=finding))


def test_one_place_moves_to_another_node_and_that_of_rank_0_stays(training) -> None:
    life = training(nodes=3, standbys=1)
    apart(life, "n0", "n2")
    life.answer()
    life.answer()
    assert (life.phase, life.job.places) == (Phase.RUNNING, ("n0", "n1", "n3"))
    assert life.evicted == []
    assert life.incident.kind is Kind.UNREACHABLE
    assert all(not node.record.facts for node in life.state.nodes.values())


def test_the_node_that_was_left_comes_back_only_where_there_is_no_other(training) -> None:
    life = training(nodes=2, standbys=1)
    apart(life, "n0", "n1")
    life.answer()
    life.do(e.NodeReleased(node="n1"))
    life.node("n5")
    life.answer()
    life.lose("n2")
    assert life.job.places == ("n0", "n5")


def test_without_another_node_all_are_tested_and_at_the_end_it_is_given_up(training) -> None:
    life = training(nodes=2)
    rungs, acts = [], set()
    for _ in range(200):
        apart(life, "n0", "n1")
        rungs.append(life.incident.rung)
        acts.add(life.incident.table.act)
        if life.phase is Phase.FAILED:
            break
        life.answer()
        if life.job.exam is not None:
            life.tests_end()
            life.answer()
    assert rungs[0] == 4
    assert acts == {Act.EXAM_ALL, Act.RESTART, Act.GIVE_UP}, "no restore point is to blame"
    assert set(life.paid) == {Blame.INFRASTRUCTURE}, "nor the script"
    assert life.phase is Phase.FAILED
    assert "n0 and n1 cannot reach each other" in life.job.failure.reason
    assert life.evicted == []


def test_a_standstill_for_a_rank_that_left_early_is_that_ranks(training) -> None:
    life = training()
    life.dies(1, code=0, own_step=10)
    finding = Finding(
        kind=Kind.HANG,
        weight=Weight.SUSPECT,
        job="job",
        epoch=life.job.epoch,
        node="n0",
        rank=1,
        summary="rank 1 on n0 holds the job up",
    )
    life.do(e.Found(finding=finding))
    assert (life.incident.kind, life.incident.blame) == (Kind.ENDED_EARLY, Blame.USER)
    assert life.incident.summary.startswith("rank 1 on n0 ended with exit code 0 after step 10")
    assert life.paid == [Blame.USER]
    assert life.blamed("n0") == []


# ---------------------------------------------------------------- remembered for the next seating


def parted(life, *, job: str = "job") -> None:
    """The job's first two nodes could not reach each other; it has ended since."""
    apart(life, "n0", "n1")
    life.do(e.StopRequested(job=job))
    life.answer(job)
    for node in ("n0", "n1"):
        life.do(e.NodeReleased(node=node))


def cut(life) -> list[tuple[str, str]]:
    links = dict.fromkeys(book.cut(life.state.facts, life.state.nodes, life.now))
    return [(link.source.name, link.target.name) for link in links]


def nodes_of(life, name: str) -> set[str]:
    return set(life.state.jobs[name].nodes)


def test_another_job_is_not_seated_on_the_two_where_a_third_node_is_free(training) -> None:
    life = training(nodes=2)
    parted(life)
    life.node("n2")
    life.submit("other", nodes=2)
    assert nodes_of(life, "other") == {"n0", "n2"}


def test_a_driver_that_takes_over_knows_the_pair(training) -> None:
    life = training(nodes=2)
    parted(life)
    life.state = decode(encode(life.state))
    life.do(e.DriverStarted(term=2))
    for k in range(3):
        life.node(f"n{k}")
    life.submit("other", nodes=2)
    assert nodes_of(life, "other") == {"n0", "n2"}


def test_where_no_other_node_is_free_the_two_are_seated_and_that_is_said_once(training) -> None:
    life = training(nodes=2)
    parted(life)
    life.submit("other", nodes=2)
    assert nodes_of(life, "other") == {"n0", "n1"}
    life.answer("other")
    told = [why for why in life.whys if "n0 and n1 could not reach each other lately" in why]
    assert len(told) == 1
    assert told[0].endswith("and no other node is free for other")


def test_after_its_time_the_pair_is_forgotten(training) -> None:
    life = training(nodes=2)
    parted(life)
    life.node("n2")
    life.wait(until_s=life.now + book.LINK_S - 60)
    life.node("n2")
    life.submit("other", nodes=2)
    assert nodes_of(life, "other") == {"n0", "n2"}
    life.do(e.StopRequested(job="other"))
    life.answer("other")
    for node in ("n0", "n2"):
        life.do(e.NodeReleased(node=node))
    life.wait(until_s=life.now + 60)
    life.submit("third", nodes=2)
    assert nodes_of(life, "third") == {"n0", "n1"}


def test_what_one_node_told_of_the_other_says_nothing_of_the_way_back(training) -> None:
    life = training(nodes=3, standbys=1)
    apart(life, "n2", "n0", one_way=True)
    assert cut(life) == [("n2", "n0")]
    (fact,) = life.state.facts
    assert (fact.what, fact.bearing, fact.entry) == ("unreachable", "accuses", life.state.sequence)
    assert (fact.about.job, fact.about.version, fact.at_s) == ("job", 1, life.now)
    life.answer()
    life.answer()
    assert life.job.places == ("n0", "n1", "n3"), "they are not seated together all the same"


def test_a_person_clears_a_link_both_ways_and_accuses_it_one_way(training) -> None:
    life = training(nodes=2)
    parted(life)
    life.node("n2")
    told = e.NodeFactTold(node="n1", to="n0", words="it blinks")
    life.do(told)
    life.do(replace(told, words="cable replaced", says="clears"))
    assert cut(life) == []
    assert [fact.what for fact in life.state.facts] == ["it blinks", "cable replaced"]
    life.submit("other", nodes=2)
    assert nodes_of(life, "other") == {"n0", "n1"}
    why = life.do(replace(told, words="bent", says="accuses")).why
    assert why == "a person accuses the link from n1 to n0: bent"
    assert cut(life) == [("n1", "n0")]
    assert decode(encode(life.state)) == life.state


@pytest.mark.parametrize(
    "end",
    [
        lambda life: life.do(e.NodeAppeared(node="n1", machine="another")),
        lambda life: life.do(e.NodeFactTold(node="n1", words="a new card", says="clears")),
    ],
    ids=["another machine", "a node that is cleared"],
)
def test_a_link_is_that_of_two_machines(training, end) -> None:
    life = training(nodes=2)
    life.do(e.NodeAppeared(node="n1", machine="first"))
    parted(life)
    assert len(cut(life)) == 2
    end(life)
    assert cut(life) == []


def test_a_place_that_is_empty_goes_to_a_node_that_reaches_the_others(training) -> None:
    life = training(nodes=2)
    parted(life)
    life.node("n2")
    life.submit("other", nodes=2)
    life.answer("other")
    life.node("n3")
    life.lose("n2")
    assert nodes_of(life, "other") == {"n0", "n3"}


def test_no_place_moves_to_a_node_that_cannot_reach_the_others(training) -> None:
    life = training(nodes=3, spare=1)
    apart(life, "n0", "n2")
    life.answer()
    life.answer()
    assert life.job.places == ("n0", "n1", "n3")
    life.do(e.NodeReleased(node="n2"))
    life.wait(until_s=life.now + 60)
    apart(life, "n0", "n3")
    assert life.job.leaving == (), "n2 cannot reach n0 either"
    assert life.job.suspects == ("n0", "n1", "n3")


def test_tests_that_fail_between_two_good_nodes_move_one_of_them_with_its_last_step(
    training,
) -> None:
    life = training(nodes=3)
    life.do(
        e.Found(
            finding=Finding(
                kind=Kind.NO_PROGRESS,
                weight=Weight.SUSPECT,
                job="job",
                epoch=life.job.epoch,
                summary="no progress",
            )
        )
    )
    life.wait()
    life.answer()
    life.node("n3")
    life.tests_end(cut=("n1", "n2"))
    assert life.evicted == []
    assert life.job.places == ("n0", "n1", "n3")
    assert cut(life) == [("n1", "n2"), ("n2", "n1")]
    assert {(fact.what, fact.bearing) for fact in life.state.facts} == {("tests", "convicts")}
    life.answer()
    assert life.phase is Phase.RUNNING


names = st.sampled_from([f"n{k}" for k in range(8)])
two = st.sets(names, min_size=2, max_size=2).map(sorted).map(tuple)


ALL = [f"n{k}" for k in range(8)]


def some_nodes() -> Turn:
    return Turn(State(nodes={name: Node(name=name) for name in ALL}), 0.0, Policy())


@given(st.lists(two, max_size=10), st.permutations(ALL))
def test_those_that_are_left_can_all_meet_and_nobody_is_left_out_for_nothing(
    known: Any, order: list[str]
) -> None:
    turn = some_nodes()
    for pair in known:
        candidates.note_pair(turn, pair, "tests", Bearing.CONVICTS, About())
    left = candidates.meeting(turn, order)
    assert left == [node for node in order if node in left]
    assert not {tuple(sorted(pair)) for pair in combinations(left, 2)} & set(known)
    for node in set(order) - set(left):
        assert any(node in pair for pair in known)


def test_a_link_that_one_way_is_cut_parts_both_ends_from_then_on_until_nothing_is_left_of_it() -> (
    None
):
    turn = some_nodes()
    assert candidates.apart_from(turn, ALL) == frozenset()
    candidates.note_pair(turn, ("n5", "n2"), "tests", Bearing.CONVICTS, About(), one_way=True)
    assert candidates.apart_from(turn, ["n2"]) == {"n5"}
    assert candidates.apart_from(turn, ["n5"]) == {"n2"}
    turn.now = 1.01 * book.LINK_S
    turn.put_facts(turn.facts)
    assert (len(turn.facts), turn.apart) == (1, ())
    turn.now = 4.01 * book.LINK_S
    turn.put_facts(turn.facts)
    assert turn.facts == (), "what convicts a link has an age, too"


def test_no_more_of_links_is_kept_than_stated() -> None:
    turn = some_nodes()
    for k in range(book.KEPT + 5):
        two = ("n0", f"n{k % 7 + 1}")
        candidates.note_pair(
            turn, two, "unreachable", Bearing.ACCUSES, About(job=f"job-{k}"), one_way=True
        )
    assert len(turn.facts) == book.KEPT
    assert turn.facts[-1].about.job == f"job-{book.KEPT + 4}"


def test_a_pair_that_is_told_of_again_and_again_displaces_no_other() -> None:
    turn = some_nodes()
    candidates.note_pair(turn, ("n2", "n3"), "tests", Bearing.CONVICTS, About(job="other"))
    for k in range(book.KEPT):
        turn.now = float(k)
        candidates.note_pair(
            turn, ("n0", "n1"), "unreachable", Bearing.ACCUSES, About(job="job", version=1)
        )
    assert turn.apart == (("n2", "n3"), ("n0", "n1"))
    assert [fact.at_s for fact in turn.facts[2:]] == [book.KEPT - 1.0] * 2, "the newest stands"


def test_a_job_gets_on_in_a_simulated_cluster_two_nodes_of_which_cannot_meet() -> None:
    jobs = (SimJob("job-0", 0.1, 3, 1, 0, 60, 5), SimJob("job-1", 30.0, 3, 1, 0, 20, 5))
    moved = 0
    for dice in range(0, 6_000, 97):
        world = play(Scenario(7, 6, 1, jobs, (Fault(2.0, "part", dice, 0.5),)))
        assert all(job.phase is Phase.SUCCEEDED for job in world.driver.state.jobs.values())
        effects = [effect for entry in world.driver.journal for effect in entry.effects]
        assert not [effect for effect in effects if isinstance(effect, Distrust)]
        moved += any("try its place on another node" in entry.why for entry in world.driver.journal)
    assert moved > 5


def test_of_another_jobs_standbys_one_is_lent_that_reaches_the_others(training) -> None:
    life = training(nodes=2)
    parted(life)
    life.node("n2")
    life.submit("other", nodes=2)
    assert nodes_of(life, "other") == {"n0", "n2"}
    life.answer("other")
    life.do(e.NodeVanished(node="n1"))
    life.node("n3")
    life.node("n4")
    life.submit("rich", nodes=1, ranks_per_node=1, standbys=2)
    life.do(e.NodeAppeared(node="n1"))
    assert life.state.jobs["rich"].standbys == ("n4", "n1"), "the last one would be lent"
    life.answer("rich")
    life.lose("n2")
    assert life.state.jobs["rich"].standbys == ("n1",)
    life.do(e.NodeReleased(node="n4"))
    assert nodes_of(life, "other") == {"n0", "n4"}
