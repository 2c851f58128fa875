"""What is corrupt in the store is never loaded."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from checkpoint_agent import Start  # noqa: E402 - after the check for torch
from checkpoint_job import INTERVAL, Job, persisted  # noqa: E402

from holdfast.checkpoint.restoring import CheckpointRefused  # noqa: E402
from holdfast.protocol.messages import Restore, Stored  # noqa: E402
from holdfast.protocol.topology import Topology  # noqa: E402

pytestmark = pytest.mark.torch


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def other_step(path: Path) -> None:
    """What a mixture of two steps looks like: this shard is another checkpoint's."""
    shutil.copy(path.parent.parent / "step-00000010-epoch-1" / path.name, path)


@pytest.mark.parametrize(
    ("name", "damage", "why"),
    [
        ("shard-00001-of-00002.safetensors", flip, "its checksum does not match the manifest's"),
        ("shard-00001-of-00002.safetensors", cut, "the manifest says"),
        ("shard-00000-of-00002.safetensors", Path.unlink, "the shard is not there"),
        ("shard-00000-of-00002.safetensors", other_step, "its checksum does not match"),
        ("manifest.json", cut, "its manifest: it cannot be read"),
        ("manifest.json", flip, "its manifest: "),
        ("manifest.json", other_step, "its manifest: it is of step 10, order 1"),
        ("manifest.json", Path.unlink, "it has no manifest"),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_the_one_before_is_used(
    tmp_path: Path, start: Start, name: str, damage: Callable[[Path], object], why: str
) -> None:
    job, agent = Job(tmp_path, 2), start()
    agent.give(job.order(0, 1))
    for step in (INTERVAL, 2 * INTERVAL):
        job.save(step)
        agent.until(persisted(step), f"step {step} is written")
    damage(job.store / "step-00000020-epoch-1" / name)
    refused_by = [rank for rank in range(2) if refuses(job, rank)]
    report = job.look_up(agent)
    assert report.stored == (Stored(step=INTERVAL, epoch=1),)
    assert refused_by, "a rank reads no byte that it does not check"
    told = (Stored(step=2 * INTERVAL, epoch=1),)
    assert report.damaged == (() if "no manifest" in why else told), "what has none may get it yet"
    refusal = next(note for note in report.notes if note.startswith("checkpoint refused: "))
    assert "step-00000020-epoch-1" in refusal
    assert why in refusal
    for rank in range(2):
        found = job.restored(rank, report.stored[0])
        assert torch.equal(found, torch.full((4_000,), INTERVAL + rank / 10))


def refuses(job: Job, rank: int) -> bool:
    """Whether the rank will not start from step 20; its state is unchanged then."""
    state = {"w": torch.zeros(4_000)}
    wanted = Restore(source="store", step=2 * INTERVAL, epoch=1)
    with suppress(CheckpointRefused):
        job.checkpointer(rank, wanted).restore(state)
        return False
    assert float(state["w"].sum()) == 0
    return True


def test_a_job_of_another_size_has_what_one_rank_had_on_each(tmp_path: Path, start: Start) -> None:
    job, agent = Job(tmp_path), start()
    agent.give(job.order(0))
    job.save(INTERVAL)
    agent.until(persisted(INTERVAL), "written")
    job.world_size, job.topology = 2, Topology(dp=2)
    for rank in range(2):
        assert float(job.restored(rank, Stored(step=INTERVAL, epoch=1))[0]) == INTERVAL
