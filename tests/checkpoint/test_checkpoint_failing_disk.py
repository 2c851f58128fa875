"""A disk that answers EIO in the middle of saves and restores: nothing acknowledged is lost."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

torch = pytest.importorskip("torch")

from checkpoint_agent import AgentProcess, Start  # noqa: E402 - after the check for torch
from checkpoint_job import INTERVAL, Job, persisted  # noqa: E402
from waiting import eventually  # noqa: E402

from holdfast.checkpoint.restoring import CheckpointRefused  # noqa: E402
from holdfast.checkpoint.stores.file import FileStore  # noqa: E402
from holdfast.lab.kubernetes.build import NotHere  # noqa: E402
from holdfast.lab.stores.failing_disk import FailingDisk, failing_disk  # noqa: E402
from holdfast.protocol.messages import Stored  # noqa: E402

pytestmark = pytest.mark.torch

ELEMENTS = 2 << 20
"""8 MiB a rank, which takes as long to write as it takes to see that it is under way."""


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    try:
        with failing_disk() as disk:
            yield disk
    except NotHere as missing:
        pytest.skip(str(missing))


def fail_in_a_save(job: Job, disk: FailingDisk, step: int, rng: Random) -> None:
    """At a random moment after it has begun, and before it has its manifest."""
    folder = disk.path / "store" / f"step-{step:08}-epoch-{job.epoch}"
    job.save(step)
    files = rng.randrange(3)  # begin.json; then shards and parts, finished or not
    eventually(lambda: folder.is_dir() and len(list(folder.iterdir())) > files, "it is under way")
    disk.fail()


def held(job: Job, rank: int, step: int) -> torch.Tensor:
    return torch.full((ELEMENTS,), step + rank / 10)


def told(agent: AgentProcess) -> None:
    report = agent.until(lambda report: report.store_error, "the error is told")
    assert report.store_error.endswith("Input/output error. It is tried again.")
    assert "/disk/store/" in report.store_error


@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_survives_a_disk_that_fails_in_a_save(
    tmp_path: Path, start: Start, disk: FailingDisk, seed: int
) -> None:
    rng = Random(seed)
    job = Job(tmp_path, 2, store_url=f"{disk.url}/store", elements=ELEMENTS)
    reader = Job(tmp_path / "elsewhere", 2, store_url=job.store_url, elements=ELEMENTS)
    agent = start()
    agent.give(job.order(0, 1))
    job.save(INTERVAL)
    agent.until(persisted(INTERVAL), "the first is written")

    fail_in_a_save(job, disk, 2 * INTERVAL, rng)
    told(agent)
    job.save(2 * INTERVAL + 1)
    agent.until(lambda r: any(s.step == 2 * INTERVAL + 1 for s in r.snapshots), "training goes on")
    first = Stored(step=INTERVAL, epoch=1)
    with pytest.raises(CheckpointRefused, match="Input/output error"):
        reader.restored(0, first)

    disk.mend()
    whole = {path.parent.name for path in (disk.path / "store").glob("*/manifest.json")}
    assert "step-00000010-epoch-1" in whole
    for rank in range(2):
        assert torch.equal(reader.restored(rank, first), held(job, rank, INTERVAL))
    agent.until(persisted(2 * INTERVAL), "and what was under way is written")
    agent.until(lambda report: not report.store_error, "the error is taken back")
    second = Stored(step=2 * INTERVAL, epoch=1)
    for rank in range(2):
        assert torch.equal(reader.restored(rank, second), held(job, rank, 2 * INTERVAL))
    seen = FileStore(str(disk.path / "store")).entries(f"step-{2 * INTERVAL:08}-epoch-1")
    shards = [f"shard-{rank:05}-of-00002.safetensors" for rank in range(2)]
    assert [entry.name for entry in seen] == ["manifest.json", *shards], "nothing half-written"
