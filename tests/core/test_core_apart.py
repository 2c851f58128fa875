"""Two nodes that cannot reach each other are not seated together, and neither is accused."""

from holdfast.driver.core import events as e
from holdfast.driver.core.model import Phase
from holdfast.protocol.faults import Blame, Evidence, Finding, Kind, Weight


def apart(life, first: str, second: str) -> None:
    evidence = (Evidence(source=f"daemon of {first}", text="no answer"),)
    finding = Finding(
        kind=Kind.UNREACHABLE,
        weight=Weight.SUSPECT,
        blame=Blame.INFRASTRUCTURE,
        job="job",
        epoch=life.job.epoch,
        apart=(first, second),
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
    assert all(not node.strikes for node in life.state.nodes.values())


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
    rungs = []
    for _ in range(8):
        apart(life, "n0", "n1")
        rungs.append(life.incident.rung)
        if life.phase is Phase.FAILED:
            break
        life.answer()
        if life.job.diagnosis is not None:
            life.tests_end()
            life.answer()
    assert rungs[0] == 4
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
    assert [spent.blame for spent in life.job.spent] == [Blame.USER]
    assert life.state.nodes["n0"].strikes == ()
