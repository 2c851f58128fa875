"""Journals of earlier drivers, killed in each phase of a job's life: read, told, and gone on with.

They are kept as they were written. A driver of today opens each, tells its story, and decides on
what came next. `python tests/core/test_core_corpus.py` adds those of phases that have none yet, by
the simulator; what is there is never written again.
"""

import asyncio
import lzma
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.driver.adapters.rest.telling import story_of, why_job, why_node
from holdfast.driver.adapters.sql.sqlite import open_sqlite
from holdfast.driver.batch.deadlines import turns_of
from holdfast.driver.core.decide import decide
from holdfast.driver.core.events import AnyEvent, DiagnosticEnded
from holdfast.driver.core.job.epochs import LOST
from holdfast.driver.core.state.model import FINISHED, Phase, State
from holdfast.driver.core.turn import Decision
from holdfast.driver.formats.encode import decode, encode
from holdfast.lab.simulator import simulate
from holdfast.lab.simulator.effects import driver_of
from holdfast.lab.simulator.scenario import POLICY, Scenario, draw
from holdfast.lab.simulator.world import World

FOLDER = Path(__file__).parent / "journals"
PHASES = sorted(set(Phase) - FINISHED)
DECIDES_ELSE = {Phase.RUNNING}
"""Where a driver of today decides something else than that one did, so that what came next in its
world is no answer to it: with all nodes of a standstill silent, for it has only just taken over, it
accuses nobody."""


class Next(msgspec.Struct):
    """What the next driver heard, and when."""

    now: float
    event: AnyEvent


class Cut(msgspec.Struct):
    """Where a driver died: the job and its phase, the phase that it ended in, what came between."""

    job: str
    phase: Phase
    ended: Phase
    tail: list[Next]


@pytest.mark.parametrize("phase", PHASES)
def test_a_journal_from_the_middle_of_a_life_reads_and_goes_on(
    phase: Phase, tmp_path: Path
) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(lzma.decompress((FOLDER / f"{phase.lower()}.sqlite.xz").read_bytes()))
    cut = msgspec.json.decode((FOLDER / f"{phase.lower()}.json").read_bytes(), type=Cut)
    journal = open_sqlite(path)
    try:
        taken = journal.take_over()
        assert taken.state is not None
        state = decode(taken.state)
        assert state.jobs[cut.job].phase == cut.phase == phase
        assert [entry.sequence for entry in journal.entries()] == list(range(1, state.sequence + 1))
        story = story_of(journal, state, state.jobs[cut.job], whole=True)
        assert any("is submitted" in line.text for line in story.lines)
        assert why_job(journal, state, state.jobs[cut.job], now=0.0).headline
        now = taken.now
        for node in state.nodes.values():
            assert why_node(journal, state, node, now=now).headline
        gone_on = _gone_on(state, cut).jobs[cut.job].phase
        assert gone_on == cut.ended or (cut.phase in DECIDES_ELSE and gone_on not in FINISHED)
    finally:
        journal.close()


def _gone_on(state: State, cut: Cut) -> State:
    known = state.epoch
    for each in cut.tail:
        left_out = state.epoch // LOST * LOST
        answer = msgspec.convert(
            _renumbered(msgspec.to_builtins(each.event), known, left_out), AnyEvent
        )
        for event in turns_of(state, _of_todays_exam(state, answer), each.now):
            state = decide(state, event, each.now, POLICY).state
    return state


def _renumbered(told: Any, known: int, left_out: int) -> Any:
    """The same of the epochs that a driver of today gives: since then it leaves some out."""
    if isinstance(told, list):
        return [_renumbered(each, known, left_out) for each in told]
    if not isinstance(told, dict):
        return told
    new = {key: _renumbered(each, known, left_out) for key, each in told.items()}
    if (epoch := new.get("epoch") or 0) > known:
        new["epoch"] = epoch + left_out
    return new


def _of_todays_exam(state: State, told: AnyEvent) -> AnyEvent:
    """The same of the exam as a driver of today names it."""
    if not isinstance(told, DiagnosticEnded) or told.node not in state.nodes:
        return told
    return replace(told, id=state.nodes[told.node].exam or told.id)


# ------------------------------------------------------------ making them


class Cutting(World):
    """Its driver dies when the first job comes into a phase, with what led there committed."""

    def __init__(self, scenario: Scenario, phase: Phase) -> None:
        super().__init__(scenario)
        self.driver = driver_of(self)
        self.phase, self.cut, self.state = phase, 0, State()
        self.driver._commit, self._commit = self._committed, self.driver._commit

    def _committed(self, event: AnyEvent, decision: Decision) -> None:
        self._commit(event, decision)
        job = decision.state.jobs.get("job-0")
        if self.cut or job is None or job.phase is not self.phase:
            return
        if job.incident or job.phase is Phase.SUSPENDED:  # in the middle of a recovery
            self.cut, self.state = len(self.driver.journal), decision.state
            self.driver.fuse = 0


def _cut(phase: Phase) -> Cutting:
    """The first of the drawn lives that comes there."""
    for seed in range(1_000):
        world = Cutting(draw(seed), phase)
        simulate._play(world)
        simulate._converge(world)
        if world.cut and "job-0" in world.driver.state.jobs:
            return world
    raise AssertionError(f"no seed comes to {phase}")


def _write(phase: Phase) -> None:
    world = _cut(phase)
    path = FOLDER / f"{phase.lower()}.sqlite"
    journal = open_sqlite(path, reserve_bytes=0)
    journal.take_over()
    asyncio.run(journal.commit(world.driver.journal[: world.cut], encode(world.state)))
    journal.close()
    path.with_name(path.name + ".xz").write_bytes(lzma.compress(path.read_bytes()))
    for left in FOLDER.glob(f"{phase.lower()}.sqlite*"):
        if left.suffix != ".xz":
            left.unlink()
    tail = [Next(entry.now, entry.event) for entry in world.driver.journal[world.cut :]]
    ended = world.driver.state.jobs["job-0"].phase
    cut = Cut("job-0", phase, ended, tail)
    (FOLDER / f"{phase.lower()}.json").write_bytes(msgspec.json.encode(cut))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in PHASES:
        if not (FOLDER / f"{each.lower()}.json").exists():
            _write(each)
