"""A job leaves the nodes on which its ranks die, and no others: how chaos sees it in a journal."""

import pytest

from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Instruct
from holdfast.driver.core.state.model import Phase
from holdfast.driver.ports import Entry
from holdfast.lab.chaos import moves
from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.play import wrong
from holdfast.lab.chaos.scenario import Expected
from holdfast.lab.chaos.scenarios import named
from holdfast.lab.simulator.scenario import Fault, Scenario, SimJob
from holdfast.lab.simulator.simulate import play
from holdfast.protocol.messages import Desired, Seat


def starts(epoch: int, *nodes: str, job: str = "job") -> Entry:
    seats = [
        Seat(rank=rank, local_rank=0, node=node, address="::") for rank, node in enumerate(nodes)
    ]
    common = {"generation": epoch, "term": 1, "epoch": epoch, "job": job, "seats": tuple(seats)}
    effects = tuple(Instruct(desired=Desired(node=node, **common)) for node in nodes)
    said = {"event": e.DriverStarted(term=1), "effects": effects, "why": "", "jobs": ("job",)}
    return Entry(sequence=1, term=1, now=0.0, at="", policy=1, **said)


FIRST = [starts(1, "n0", "n1"), starts(2, "n0", "n1")]
RIGHT = {
    "it left": [*FIRST, starts(4, "n0", "n2")],
    "another job there is another's": [*FIRST, starts(4, "n0", "n2"), starts(9, "n1", job="other")],
    "one that came later may go": [*FIRST, starts(3, "n0", "n2"), starts(4, "n0", "n3")],
}
WRONG = {
    "it stays": ([*FIRST, starts(3, "n0", "n1")], "n1 has ranks of job still"),
    "it comes back": ([*FIRST, starts(3, "n0", "n2"), starts(4, "n0", "n1")], "still"),
    "another had to go": ([*FIRST, starts(3, "n2", "n3")], "job left n0, to which nothing"),
    "it never began": ([], "never had a node"),
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_lemon_that_was_left_is_right(case: str) -> None:
    assert moves.wrong(RIGHT[case], "job", ["n1"]) == []


@pytest.mark.parametrize("case", WRONG)
def test_a_lemon_that_was_not_or_another_that_was_is_wrong(case: str) -> None:
    entries, why = WRONG[case]
    (said,) = moves.wrong(entries, "job", ["n1"])
    assert why in said


def test_it_is_asked_of_all_lemons_where_it_has_to_follow() -> None:
    stays = [starts(1, "n0", "n1", job="chaos")]
    done = Done(said="", node="n1", also=("n0",))
    for name in ("node-lemon", "two-lemons"):
        said = wrong(stays, named(name).expected, done)
        assert said == ["n0 has ranks of chaos still", "n1 has ranks of chaos still"]
    assert wrong(stays, Expected(), done) == []


def test_what_the_driver_does_about_a_simulated_lemon_is_understood() -> None:
    jobs = (SimJob("job-0", 0.1, 2, 1, 0, 80, 5),)
    world = play(Scenario(3, 4, 1, jobs, (Fault(2.0, "lemon", 1, 0.5),)))
    assert world.driver.state.jobs["job-0"].phase is Phase.SUCCEEDED
    journal = world.driver.journal
    moved = [entry for entry in journal if "try its place on another node than" in entry.why]
    lemon = moved[0].why.partition("on another node than ")[2].split(";")[0].split()[0]
    assert moves.wrong(journal, "job-0", [lemon]) == []
    assert moves.wrong(journal[: journal.index(moved[0])], "job-0", [lemon])
