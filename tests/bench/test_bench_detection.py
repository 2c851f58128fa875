"""The detection bench: who was named is read right, and one turn measures what a user sees."""

from pathlib import Path

import pytest

from holdfast.bench.detection import script, turns
from holdfast.bench.detection.benchmark import Tuned, round_of
from holdfast.bench.restart.systems import Holdfast, Torchrun
from holdfast.cli.bench import Standing


def test_the_command_offers_each_fault_that_can_be_done() -> None:
    assert [each.value for each in Standing] == [*turns.FAULTS]
    kinds = {fault.kind for fault in turns.FAULTS.values()} - {""}
    assert kinds == script.FAULTS.keys()


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("holdfast  rank 2 does not run: it holds the job up", "2"),
        ("holdfast  job waits for 2.3 s: rank 3 does not run; it was in step (a.py:3); if …", "3"),
        ("holdfast  rank 1 called barrier where its peers called all_reduce", "1"),
        ("holdfast  ranks 0 and 1 called all_reduce of different sizes", None),
    ],
)
def test_who_was_named_is_read_in_what_people_read(line: str, rank: str | None) -> None:
    found = turns.NAMES.search(f"holdfast  4 ranks here\n{line}\n")
    assert found is not None
    assert turns.who_of(found) == rank


def test_a_start_names_nobody() -> None:
    assert turns.NAMES.search("holdfast  4 ranks here, logs in runs/script-1\n") is None


def test_each_fault_is_done_under_each_system_and_each_goes_first_in_its_turn() -> None:
    names = [Torchrun.name, Tuned.name, Holdfast.name]
    firsts = [[turn.system for turn in round_of(number, ["stopped"])] for number in range(3)]
    assert [sorted(each) for each in firsts] == [sorted(names)] * 3
    assert [each[0] for each in firsts] == names


@pytest.mark.torch
@pytest.mark.slow
def test_a_turn_measures_when_the_rank_was_named_and_acted_on(tmp_path: Path) -> None:
    fault = turns.FAULTS["other-collective"]
    tries = [*turns.held_up(Holdfast(), tmp_path, fault=fault, rank=2)]
    told = {one.figure.removeprefix(f"{fault.title}: "): one.value for one in tries}
    assert told["right rank named"] == 1
    assert told["named"] is not None
    assert told["acted on"] is not None
    assert told["named"] <= told["acted on"]
