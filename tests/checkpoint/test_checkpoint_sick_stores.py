"""Stores that take no more, or are none: it is told, and training goes on."""

import os
import resource
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from checkpoint_agent import Start  # noqa: E402 - after the check for torch
from checkpoint_job import INTERVAL, Job, persisted  # noqa: E402

from holdfast.protocol import storeurl  # noqa: E402

pytestmark = pytest.mark.torch


def test_a_store_that_takes_no_more_is_told_and_tried_again_and_training_goes_on(
    tmp_path: Path, start: Start
) -> None:
    job, agent = Job(tmp_path), start()
    limits = resource.prlimit(agent.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (8_000, limits[1]))
    agent.give(job.order(0))
    for step in range(1, 3 * INTERVAL):
        job.save(step)
    report = agent.until(lambda report: report.store_error, "the store's error is told")
    assert "cannot write" in report.store_error
    assert "File too large. Raise the limit on file sizes there." in report.store_error
    assert report.snapshots
    assert report.persisted_step is None
    assert job.whole() == []
    resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, limits)
    report = agent.until(persisted(2 * INTERVAL), "it is written once the store takes it")
    agent.until(lambda report: report.store_error == "", "the error is taken back")
    assert not list(job.store.glob("*/.*")), "nothing half-written is left"


HASTY = (
    "from holdfast.checkpoint import agent; from holdfast.checkpoint import timed_store as t; "
    "t.STALL_S = 0.5; agent.main()"
)
"""An agent that waits half a second until it says that a store does not answer."""


def test_a_store_that_does_not_answer_is_told_though_nothing_is_refused(
    tmp_path: Path, start: Start
) -> None:
    job, agent = Job(tmp_path, 2), start(program=("-c", HASTY))
    never = job.store / f"step-{INTERVAL:08}-epoch-1" / "part-00001.json"
    never.parent.mkdir(parents=True)
    os.mkfifo(never)
    agent.give(job.order(0, 1))
    job.save(INTERVAL)
    report = agent.until(lambda report: report.store_error, "told")
    assert report.store_error == (
        f"store: file://{job.store} has not answered for 0.5 s. See that its file system "
        "answers on this node; it is waited for."
    )
    job.save(INTERVAL + 1)
    agent.until(lambda report: len(report.snapshots) == 4, "training goes on")
    with never.open("wb") as end:
        end.write(b"no part")
    agent.until(lambda report: report.store_error == "", "it answers")


NEVER_DELETES = (
    "import threading; from holdfast.checkpoint.stores.file import FileStore; "
    "FileStore.delete = lambda self, path: threading.Event().wait(); " + HASTY
)


def test_a_store_that_never_gets_a_deletion_done_keeps_what_it_is_given(
    tmp_path: Path, start: Start
) -> None:
    job, agent = Job(tmp_path), start(program=("-c", NEVER_DELETES))
    agent.give(job.order(0, retention=1))
    errors = set()
    for step in range(INTERVAL, 5 * INTERVAL, INTERVAL):
        job.save(step)
        agent.until(persisted(step), f"step {step} is acknowledged")
        errors.add(agent.last and agent.last.store_error)
    assert errors == {""}
    assert len(job.whole()) == 4


FULL_DISK = 'mkdir -p "$1" && mount -t tmpfs -o size=64k full "$1" && shift && exec "$@"'


def test_a_full_disk_under_the_store_is_told_and_snapshots_stay(
    tmp_path: Path, start: Start
) -> None:
    if subprocess.run(["unshare", "-Urm", "true"], check=False).returncode:
        pytest.skip("no user namespaces here: a small disk cannot be had")
    job = Job(tmp_path)
    agent = start("unshare", "-Urm", "sh", "-c", FULL_DISK, "sh", str(job.store))
    agent.give(job.order(0))
    for step in range(1, INTERVAL + 1):
        assert job.ranks[0].save(step, {"w": torch.zeros(50_000)})
    report = agent.until(lambda report: report.store_error, "the full disk is told")
    assert (
        "No space left on device. Free space there, or give the job another" in report.store_error
    )
    assert INTERVAL in [one.step for one in report.snapshots]


A_DISK_FAILS = """
import errno, os
from holdfast.checkpoint import agent

failures, fsync = 6, os.fsync

def failing(fd):
    global failures
    if os.readlink(f"/proc/self/fd/{fd}").endswith(".tmp") and failures:
        failures -= 1
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    fsync(fd)

os.fsync = failing
agent.main()
"""


def test_a_disk_that_fails_for_a_while_publishes_nothing_until_it_is_well(
    tmp_path: Path, start: Start
) -> None:
    """What was not flushed may never be there: all of it is written again."""
    job, agent = Job(tmp_path), start(program=("-c", A_DISK_FAILS))
    agent.give(job.order(0))
    job.save(INTERVAL)
    report = agent.until(lambda report: report.store_error, "it is told")
    assert "Input/output error. It is tried again." in report.store_error
    assert job.whole() == []
    agent.until(persisted(INTERVAL), "it is written in the end")
    assert [path.name for path in job.store.glob("*/.*")] == []
    assert len(job.whole()) == 1


def test_a_store_that_is_none_is_told_in_a_sentence(tmp_path: Path, start: Start) -> None:
    job, agent = Job(tmp_path), start()
    agent.give(job.order(0, store_url="gopher://host/path"))
    job.save(INTERVAL)
    report = agent.until(lambda report: report.store_error, "told")
    assert report.store_error == (
        f"storeUrl: 'gopher://host/path' is no store that this Holdfast knows. {storeurl.FIX}"
    )
