"""An agent as a real process: what it says of the memory of its node, and how it ends."""

import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from checkpoint_agent import Start  # noqa: E402 - after the check for torch
from checkpoint_job import INTERVAL, Job, persisted  # noqa: E402
from waiting import DEADLINE_S, eventually  # noqa: E402

from holdfast.checkpoint.memory import Memory  # noqa: E402
from holdfast.checkpoint.restoring import CheckpointRefused  # noqa: E402
from holdfast.protocol.messages import Restore  # noqa: E402

pytestmark = pytest.mark.torch


def test_snapshots_are_reported_once_they_are_hashed_and_ranks_hash_what_they_restore(
    tmp_path: Path, start: Start
) -> None:
    job, agent = Job(tmp_path, 2), start()
    agent.give(job.order(0, 1))
    for step in (1, 2):
        job.save(step)
    report = agent.until(lambda report: len(report.snapshots) == 4, "all are known")
    assert [(one.rank, one.step, one.epoch) for one in report.snapshots] == [
        (0, 2, 1), (0, 1, 1), (1, 2, 1), (1, 1, 1),
    ]  # fmt: skip
    data = sorted((tmp_path / "r1").glob("slot-*.data"))
    for path in data:
        with path.open("r+b") as file:
            file.seek(-9, os.SEEK_END)
            file.write(b"\xff")
    again = job.order(slots=(0, 1))
    agent.give(again)
    report = agent.until(lambda report: report.id == again.id, "told for the new order")
    assert len(report.snapshots) == 4, "none was hashed again"
    wanted = Restore(source="memory", step=2, epoch=1)
    assert job.checkpointer(0, wanted).restore({"w": torch.zeros(4_000)}) == 2
    with pytest.raises(CheckpointRefused, match="its checksum does not match"):
        job.checkpointer(1, wanted).restore({"w": torch.zeros(4_000)})


def test_slots_are_made_and_filled_before_the_first_save(tmp_path: Path, start: Start) -> None:
    job, agent = Job(tmp_path), start()
    agent.give(job.order(0))
    model = torch.nn.Linear(100, 1_000)
    job.ranks[0].restore({"model": model, "optimizer": torch.optim.Adam(model.parameters())})
    paths = [tmp_path / "r0" / f"slot-{number}.data" for number in range(4)]
    eventually(lambda: all(path.exists() for path in paths), "four slots are there")
    weights = 4 * 101_000
    assert all(path.stat().st_size > 3 * weights for path in paths), "with room for Adam's state"
    assert all(path.stat().st_blocks * 512 >= path.stat().st_size for path in paths), "no holes"


def test_the_agent_ends_when_its_executor_does_and_loads_no_torch(
    tmp_path: Path, start: Start
) -> None:
    agent = start()
    agent.give(Job(tmp_path).order(0))
    agent.until(lambda report: True, "it reports")
    maps = Path(f"/proc/{agent.pid}/maps").read_text()
    assert "libtorch" not in maps
    assert agent.close() == 0


def test_a_malformed_order_is_refused_and_the_one_before_stands(
    tmp_path: Path, start: Start
) -> None:
    job, agent = Job(tmp_path), start()
    agent.give(job.order(0))
    agent.until(lambda report: True, "it reports")
    assert agent.process.stdin is not None
    agent.process.stdin.write(b'{"id": "x"}\nnonsense\n')
    job.save(INTERVAL)
    agent.until(persisted(INTERVAL), "the order still stands")


PATIENT = "from holdfast.checkpoint import agent; agent.SCAN_S = 3600; agent.main()"
"""An agent that never looks by itself whether there is something to report."""


def test_what_the_store_holds_is_told_at_once(tmp_path: Path, start: Start) -> None:
    job, agent = Job(tmp_path), start(program=("-c", PATIENT))
    assert job.look_up(agent).stored == ()


SLOW = """
import time
from msgspec import _utils
from holdfast.checkpoint import agent

looked_at = _utils._get_class_mro_and_typevar_mappings


def slowly(kind):
    if kind.__name__ == "Topology":
        time.sleep(0.2)
    return looked_at(kind)


_utils._get_class_mro_and_typevar_mappings = slowly
agent.main()
"""
"""An agent in which the first look at a seal's type would take long enough to be interrupted."""


def test_both_threads_of_an_agent_may_read_their_first_seal_at_one_moment(
    tmp_path: Path, start: Start
) -> None:
    job = Job(tmp_path)
    job.save(INTERVAL)
    agent = start(program=("-c", SLOW))
    agent.give(job.order(0))
    agent.until(persisted(INTERVAL), "committed")


def test_no_slot_of_a_job_is_made_while_it_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "r0").mkdir()
    (tmp_path / "r0" / "wanted").write_text("1000")
    memory = Memory("job", {0: str(tmp_path / "r0")}, print)
    memory.early.leave()
    memory.early.fill(float)
    assert [path.name for path in (tmp_path / "r0").iterdir()] == ["wanted"]


def test_an_agent_that_fails_says_why_and_ends_so_that_another_can_begin(
    tmp_path: Path, start: Start, capfd: pytest.CaptureFixture[str]
) -> None:
    job, agent = Job(tmp_path), start()
    (tmp_path / "r0" / "slot-0.seal").mkdir(parents=True)
    agent.give(job.order(0))
    assert agent.process.wait(DEADLINE_S) == 1
    assert "checkpoint agent failed" in (told := capfd.readouterr().err)
    assert "IsADirectoryError" in told
