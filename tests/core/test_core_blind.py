"""A driver that may not see well waits, says why, accuses nobody, and looks again."""

from collections.abc import Callable

import pytest
from tests.core.conftest import Life

from holdfast.driver.core import events as e
from holdfast.driver.core.recovery import case_of
from holdfast.driver.core.state.fact import Act, Hypothesis
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.faults import Finding, Kind, Weight

NODES = ("n0", "n1", "n2", "n3")


@pytest.fixture
def blind(training: Callable[..., Life]) -> Life:
    """A hang of a rank on n1 was found while three of four nodes were silent: it is waited."""
    life = training(nodes=4)
    life.silence(*NODES[1:])
    hang(life)
    life.wait(until_s=life.now + life.policy.stacks_s)
    assert table(life) == (Hypothesis.BLIND, Act.WAIT)
    return life


def hang(life: Life, *, doubt: str = "") -> None:
    found = Finding(
        kind=Kind.HANG,
        weight=Weight.RESTART,
        job="job",
        epoch=life.job.epoch,
        node="n1",
        rank=2,
        step=1,
        stalled_s=15.0,
        summary="rank 2 on n1 holds the job up",
        doubt=doubt,
    )
    life.do(e.Found(finding=found))


def goes_on(life: Life) -> None:
    found = Finding(
        kind=Kind.GOES_ON,
        weight=Weight.REPORT,
        job="job",
        epoch=life.job.epoch,
        step=2,
        summary="job goes on by itself",
    )
    life.do(e.Found(finding=found))


def back(life: Life, *nodes: str) -> None:
    for node in nodes:
        life.connect(node, f"{node}-first")


def table(life: Life) -> tuple[Hypothesis | None, Act] | None:
    known = life.incident.table
    return None if known is None else (known.chosen, known.act)


def nobody_is_accused(life: Life) -> bool:
    facts = [fact for node in life.state.nodes.values() for fact in node.record.facts]
    return not (life.job.facts or facts or life.evicted)


def test_a_job_that_went_on_while_the_driver_was_blind_is_left_alone(blind: Life) -> None:
    epoch = blind.job.epoch
    goes_on(blind)
    assert "taken back" in blind.whys[-1]
    back(blind, *NODES[1:])
    blind.wait(until_s=blind.now + 2 * case_of.LONGEST_S)
    assert (blind.job.epoch, blind.phase, blind.job.held) == (epoch, Phase.RUNNING, None)
    assert nobody_is_accused(blind)
    assert not blind.incident.open


def test_a_hang_that_lasts_is_acted_on_once_the_driver_sees(blind: Life) -> None:
    epoch = blind.job.epoch
    back(blind, *NODES[1:])
    blind.wait(until_s=blind.now + case_of.LOOK_AGAIN_S)
    assert any(why.startswith("it is looked at again; ") for why in blind.whys)
    assert blind.job.epoch > epoch
    assert table(blind) == (Hypothesis.PASSING, Act.RESTART)


def test_a_job_that_goes_on_before_its_stacks_are_there_is_left_alone(
    training: Callable[..., Life],
) -> None:
    life = training(nodes=4)
    hang(life)
    goes_on(life)
    life.wait(until_s=life.now + 60.0)
    assert life.phase is Phase.RUNNING
    assert nobody_is_accused(life)


def test_a_driver_that_took_over_waits_and_accuses_nobody(training: Callable[..., Life]) -> None:
    life = training(nodes=4)
    life.do(e.DriverStarted(term=2))
    back(life, *NODES)
    hang(life)
    life.wait(until_s=life.now + life.policy.stacks_s)
    assert table(life) == (Hypothesis.BLIND, Act.WAIT)
    assert "the driver came back 1 s ago: wait, and accuse nobody" in "; ".join(life.whys)
    assert nobody_is_accused(life)
    life.wait(until_s=life.now + case_of.LOOK_AGAIN_S)
    assert table(life) == (Hypothesis.PASSING, Act.RESTART)


def test_a_driver_that_stood_still_waits(training: Callable[..., Life]) -> None:
    life = training(nodes=4)
    life.do(e.Stalled(stood_s=30.0), after_s=30.0)
    assert "the driver stood still for 30.0 s" in "; ".join(life.whys)
    hang(life)
    life.wait(until_s=life.now + life.policy.stacks_s)
    assert table(life) == (Hypothesis.BLIND, Act.WAIT)


def test_a_driver_that_has_been_there_for_a_while_sees(training: Callable[..., Life]) -> None:
    life = training(nodes=4)
    life.do(e.Stalled(stood_s=30.0), after_s=30.0)
    life.now += life.policy.return_s
    hang(life)
    life.wait(until_s=life.now + life.policy.stacks_s)
    assert table(life) == (Hypothesis.PASSING, Act.RESTART)


def test_a_driver_that_takes_over_drops_what_the_one_before_it_held_back(blind: Life) -> None:
    epoch = blind.job.epoch
    blind.do(e.DriverStarted(term=2))
    assert "taken back, for a driver took over" in blind.whys[-1]
    back(blind, *NODES)
    blind.wait(until_s=blind.now + 2 * case_of.LONGEST_S)
    assert (blind.job.epoch, blind.phase, blind.incident.open) == (epoch, Phase.RUNNING, False)


def test_what_detectors_doubt_is_waited_for_and_no_longer(training: Callable[..., Life]) -> None:
    life = training(nodes=4)
    epoch = life.job.epoch
    hang(life, doubt="3 of its 4 ranks are paused")
    life.wait(until_s=life.now + life.policy.stacks_s)
    assert table(life) == (Hypothesis.BLIND, Act.WAIT)
    assert "3 of its 4 ranks are paused: wait, and accuse nobody" in "; ".join(life.whys)
    life.wait(until_s=life.now + case_of.LONGEST_S - 1.0)
    assert life.job.epoch == epoch
    life.wait(until_s=life.now + case_of.LOOK_AGAIN_S)
    assert table(life) == (Hypothesis.PASSING, Act.RESTART)
    assert not any(node.record.facts for node in life.state.nodes.values()), "who it was is chance"


def test_many_that_stay_silent_are_not_waited_for_for_ever(blind: Life) -> None:
    blind.do(e.BrakeApplyRequested(reason="a test", by="a person"))
    blind.wait(until_s=blind.now + 2 * case_of.LONGEST_S)
    assert table(blind) != (Hypothesis.BLIND, Act.WAIT)
