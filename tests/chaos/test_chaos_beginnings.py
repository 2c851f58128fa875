"""No job that acknowledged a checkpoint begins from 0 by itself: how chaos sees it in a journal."""

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.driver.adapters.sql.sqlite import open_sqlite
from holdfast.driver.core import events as e
from holdfast.driver.core.attempt import restore_step
from holdfast.driver.core.effects import Instruct
from holdfast.driver.ports import Entry
from holdfast.lab.chaos.beginnings import by_themselves
from holdfast.lab.cluster import Lab
from holdfast.lab.simulator import checkpoints
from holdfast.lab.simulator.scenario import draw
from holdfast.lab.simulator.simulate import play
from holdfast.protocol.messages import Desired, Restore, Seat, Task

SEAT = (Seat(rank=0, local_rank=0, node="n0", address="::"),)


@dataclass
class Told:
    """A journal in the making."""

    entries: list[Entry] = field(default_factory=list)

    def add(self, event: Any, *effects: Any) -> "Told":
        number = len(self.entries) + 1
        self.entries.append(
            Entry(
                sequence=number, term=1, now=0.0, at="", policy=1, event=event, effects=effects,
                why="",
            )
        )  # fmt: skip
        return self

    def starts(self, epoch: int, step: int = 0, job: str = "job") -> "Told":
        restore = Restore(source="store", step=step, epoch=epoch - 1) if step else None
        common = {"node": "n0", "generation": epoch, "term": 1, "epoch": epoch, "job": job}
        told = Desired(**common, seats=SEAT, restore=restore)
        return self.add(e.NodeQuiet(job=job, epoch=epoch, node="n0"), Instruct(desired=told))

    def stores(self, step: int, epoch: int, job: str = "job") -> "Told":
        return self.add(e.CheckpointStored(job=job, epoch=epoch, node="n0", step=step))

    def submits(self) -> "Told":
        plan = e.Plan(task=Task(command=("train",), workdir="."), nodes=1, ranks_per_node=1)
        return self.add(e.JobSubmitted(job="job", plan=plan))

    def resumes(self, step: int | None) -> "Told":
        return self.add(e.ResumeRequested(job="job", from_step=step))


WRONG = {
    "at once": (Told().starts(1).stores(10, 1).starts(2), [2]),
    "after others that began well": (Told().starts(1).stores(10, 1).starts(2, 10).starts(3), [3]),
    "twice after one word of a person": (
        Told().starts(1).stores(10, 1).resumes(0).starts(2).stores(5, 2).starts(3),
        [3],
    ),
    "after a person wanted another step": (
        Told().starts(1).stores(10, 1).resumes(5).starts(2),
        [2],
    ),
    "after a word that names no step": (
        Told().starts(1).stores(10, 1).resumes(None).starts(2),
        [2],
    ),
}
RIGHT = {
    "with nothing stored": Told().starts(1).starts(2),
    "by a person's word": Told().starts(1).stores(10, 1).resumes(0).starts(2),
    "where it begins at what was stored": Told().starts(1).stores(10, 1).starts(2, 10),
    "where another job stored": Told().starts(1).stores(10, 1, "other").starts(2),
    "of another life of its name": Told().starts(1).stores(10, 1).submits().starts(2),
    "told late of what was rolled back": Told().starts(1).starts(2).stores(10, 1).starts(3),
    "told again of the same attempt": Told().starts(1).stores(10, 1).starts(1),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_start_from_0_is_wrong(case: str) -> None:
    told, epochs = WRONG[case]
    said = by_themselves(told.entries, "job")
    assert [int(sentence.split()[1]) for sentence in said] == epochs


BEHIND = Told().starts(1).stores(10, 1).stores(20, 1).starts(2, 10).stores(15, 2).starts(3, 15)


def test_a_start_behind_what_was_stored_is_wrong_where_nothing_was_damaged() -> None:
    assert by_themselves(BEHIND.entries, "job") == []
    said = by_themselves(BEHIND.entries, "job", behind=True)
    assert said == ["attempt 2 of job began at step 10, and step 20 was stored"]
    assert (
        by_themselves(RIGHT["where it begins at what was stored"].entries, "job", behind=True) == []
    )


@pytest.mark.parametrize("case", RIGHT)
def test_a_start_is_right(case: str) -> None:
    assert by_themselves(RIGHT[case].entries, "job") == []


def test_no_simulated_job_begins_from_0_by_itself() -> None:
    for seed in range(150):
        world = play(draw(seed))
        for name in world.jobs:
            assert by_themselves(world.driver.journal, name) == [], f"seed {seed}"


def test_chaos_sees_what_the_simulator_forbids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_step, "hindrance", lambda job, told, point: "")
    monkeypatch.setattr(checkpoints, "check_start", lambda *_: None)  # so that it comes to its end
    worlds = [play(draw(seed)) for seed in range(150)]
    said = [by_themselves(each.driver.journal, name) for each in worlds for name in each.jobs]
    assert any(said)


async def test_it_is_asked_of_the_journal_of_a_laboratory(tmp_path: Path) -> None:
    lab = Lab(tmp_path, nodes=1)
    told, _ = WRONG["at once"]
    journal = open_sqlite(lab.run.journal)
    with closing(journal):
        term = journal.take_over().term
        entries = [replace(entry, term=term) for entry in told.entries]
        await journal.commit(entries, b"state")
        assert len(by_themselves(lab.entries(), "job")) == 1
