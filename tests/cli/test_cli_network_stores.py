"""Whole jobs whose checkpoints are in a real HDFS and a real S3: what is lost with a rank and its
memory comes back from there, and a store that cannot be used is told before anything starts.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ports import free_port
from shells import Shell
from store_servers import hdfs_server, s3_server
from waiting import DEADLINE_S, eventually

from holdfast.checkpoint.fetch import whole
from holdfast.checkpoint.stores import open_store
from holdfast.lab.stores.hdfs import Hdfs
from holdfast.lab.stores.s3 import S3
from holdfast.protocol.messages import Stored

pytestmark = [pytest.mark.cluster, pytest.mark.torch, pytest.mark.slow, pytest.mark.warm]

TRAINS = """
import os, pathlib, time
import torch
from holdfast import telemetry
from holdfast.checkpoint import Checkpointer

checkpointer = Checkpointer.from_env()
state = {"w": torch.zeros(1_000)}
step = checkpointer.restore(state) or 0
assert torch.equal(state["w"], torch.full((1_000,), float(step))), state["w"]
with open("starts", "a") as starts:
    print(step, os.getpid(), os.environ["HOLDFAST_SLOTS"], file=starts)
while not pathlib.Path("enough").exists():
    step += 1
    state["w"] += 1
    telemetry.step(step)
    checkpointer.save(step, state)
    time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    with hdfs_server() as server:
        yield server


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with s3_server() as server:
        server.new_bucket("training")
        yield server


@pytest.fixture(params=["hdfs", "s3"])
def url(request: pytest.FixtureRequest) -> str:
    server = request.getfixturevalue(request.param)
    return f"hdfs://{server.address}/ckpt" if request.param == "hdfs" else "s3://training/ckpt"


def starts(shell: Shell) -> list[list[str]]:
    """Of each attempt the step from which it began, its process and its memory."""
    told = shell.folder / "starts"
    return [line.split() for line in told.read_text().splitlines()] if told.exists() else []


def status(shell: Shell) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shell.asked("status", "--json").stdout)
    return found


def test_a_rank_that_is_lost_with_its_memory_goes_on_from_the_store(shell: Shell, url: str) -> None:
    pytest.importorskip("torch")
    shell.script("train.py", TRAINS)
    process = shell.start("run", "-n", "1", "--store-url", url, "--store-every", "5", "train.py")
    eventually(lambda: starts(shell) and status(shell)["stored_step"], "one is in the store")
    ((_, pid, slots),) = starts(shell)
    os.kill(int(pid), signal.SIGSTOP)  # so that it makes no other slot
    lost = Path(slots).rename(f"{slots}.lost")
    shutil.rmtree(lost)
    stored = status(shell)["stored_step"]
    os.kill(int(pid), signal.SIGKILL)

    eventually(lambda: len(starts(shell)) == 2, "it goes on")
    assert int(starts(shell)[1][0]) >= stored > 0
    (shell.folder / "enough").touch()
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, errors
    store = open_store(status(shell)["store_url"])
    assert status(shell)["store_url"].startswith(url)
    found = [one for one in whole(store) if isinstance(one, Stored)]
    assert found[0].step >= stored
    assert len(found) <= 3, "older ones are deleted"
    for secret in filter(None, (os.environ.get("AWS_SECRET_ACCESS_KEY"),)):
        kept = (path for path in shell.run.rglob("*") if path.is_file())
        assert not [path for path in kept if secret.encode() in path.read_bytes()]


def refused(shell: Shell, *words: str) -> "subprocess.CompletedProcess[str]":
    shell.script("train.py", "raise SystemExit('it began')")
    done = shell.asked("run", *words, "train.py")
    assert done.returncode == 2, done.stderr
    assert "it began" not in done.stderr
    assert not (shell.folder / "runs").exists()
    return done


def test_a_store_that_is_none_is_told_before_anything_starts(shell: Shell) -> None:
    for url, why in {
        "fiel:///data": "is no store that this Holdfast knows",
        "/data": "is a path, and no URL. Write file:///data",
        "s3://B/x": "has 'B' where its bucket belongs",
        "hdfs://host:9870": "names no folder in HDFS",
    }.items():
        assert f"{url!r} {why}" in refused(shell, "--store-url", url).stderr
    done = refused(shell, "--store-url", "sftp://me:hush@host/x")
    assert "a password has no place in a URL" in done.stderr
    assert "hush" not in done.stderr


def test_a_server_that_is_not_there_is_told_before_anything_starts(
    shell: Shell, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    done = refused(shell, "--store-url", f"hdfs://{nobody}/x")
    assert f"{nobody} does not answer: " in done.stderr
    assert "tried again" not in done.stderr
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{nobody}")
    done = refused(shell, "--store-url", "s3://training/x")
    assert "the server does not answer" in done.stderr


def test_what_hdfs_refuses_is_told_before_anything_starts(
    shell: Shell, hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = refused(shell, "--store-url", f"hdfs://127.0.0.1:{hdfs.rpc_port}/x")
    assert "dfs.namenode.http-address (9870)" in done.stderr
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    done = refused(shell, "--store-url", f"hdfs://{hdfs.address}/x")
    assert "Permission denied: user=stranger" in done.stderr


def test_what_s3_refuses_is_told_before_anything_starts(
    shell: Shell, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = refused(shell, "--store-url", "s3://nowhere/x")
    assert "NoSuchBucket" in done.stderr
    assert "Make the bucket" in done.stderr
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    done = refused(shell, "--store-url", "s3://training/x")
    assert "SignatureDoesNotMatch" in done.stderr
    assert "Give the nodes keys that may use it" in done.stderr
