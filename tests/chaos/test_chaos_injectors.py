"""What injectors draw, and what they say to the kernel."""

from random import Random

import pytest

from holdfast.lab.chaos.injectors import Done, together
from holdfast.lab.chaos.injectors.loss import program
from holdfast.lab.chaos.scenario import Scenario
from holdfast.lab.chaos.scenarios import SCENARIOS, chosen
from holdfast.lab.chaos.scripts.stalling import Operation, answer
from holdfast.protocol.faults import Blame, Kind


def test_pairs_are_drawn_from_the_seed_and_both_victims_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(together.time, "sleep", lambda _: None)
    pool = [lambda *_, n=n: Done(said=f"{n}", node=n and f"node-{n}", at_s=n) for n in range(3)]
    draw = together.drawn(pool)
    pairs = [draw(None, "", Random(seed)) for seed in range(400)]
    assert pairs == [draw(None, "", Random(seed)) for seed in range(400)]
    assert len({pair.said for pair in pairs}) == 9
    by_words = {pair.said: pair for pair in pairs}
    assert (by_words["1, and 2"].node, by_words["1, and 2"].also) == ("node-1", ("node-2",))
    assert (by_words["2, and 2"].node, by_words["2, and 2"].also) == ("node-2", ())


def test_the_filter_that_loses_packets_draws_a_share_of_32_bits() -> None:
    assert program(0.5) == "4,32 0 0 4294963256,53 1 0 2147483648,6 0 0 2,6 0 0 4294967295"


def test_a_family_stands_for_its_scenarios_and_healthy_jobs_expect_nothing() -> None:
    quiet = chosen(["quiet"], SCENARIOS)
    assert len(quiet) == 5
    assert not any(each.expected.incident for each in quiet)
    assert len(chosen(["pauses", "quiet"], SCENARIOS)) == 23


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_what_a_scenario_expects_are_words_of_the_product(scenario: Scenario) -> None:
    expected = scenario.expected
    kinds = filter(None, (expected.kind, expected.reports, *expected.untold))
    assert {*kinds} <= {*Kind}
    assert {*expected.blame} <= {*Blame}
    assert expected.may_evict or not expected.must_evict
    assert not (expected.reports and expected.incident), "told alone, and nothing is done"


@pytest.mark.parametrize(
    ("operation", "size"),
    [
        pytest.param(Operation.INIT, 64, id="fuse_init_out"),
        pytest.param(Operation.LOOKUP, 128, id="fuse_entry_out"),
        pytest.param(Operation.GETATTR, 104, id="fuse_attr_out"),
        pytest.param(Operation.OPEN, 16, id="fuse_open_out"),
    ],
)
def test_the_stalled_disk_speaks_fuse(operation: Operation, size: int) -> None:
    error, body = answer(operation, 1)
    assert (error, len(body)) == (0, size)


def test_what_the_stalled_disk_does_not_know_it_refuses() -> None:
    assert answer(28, 1) == (-38, b"")
