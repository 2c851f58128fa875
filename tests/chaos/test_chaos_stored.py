"""Real stores beside a laboratory: which there are, what is done to them, and what is said where
they are not installed.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from store_servers import s3_server
from waiting import eventually

from holdfast.checkpoint.layout import BEGIN, MANIFEST
from holdfast.checkpoint.stores import TemporaryStoreError, open_store
from holdfast.checkpoint.stores.file import FileStore
from holdfast.kit import procstat
from holdfast.lab.chaos import main, stored
from holdfast.lab.chaos.injectors import Done, store
from holdfast.lab.chaos.play import Stage
from holdfast.lab.chaos.scenarios import SCENARIOS, chosen, named
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.inside import NotPossible
from holdfast.lab.stores import s3
from holdfast.lab.stores.s3 import S3
from holdfast.protocol import exitcodes

STORED = [each for each in SCENARIOS if each.store not in ("", "redis")]
BUILT = [each for each in STORED if each.store != "disk"]
"""On servers that `make stores` makes."""


@pytest.fixture(scope="module")
def small() -> Iterator[S3]:
    """One with a disk of its own."""
    with s3_server(room_mb=8) as server:
        server.new_bucket("small")
        yield server


def test_scenarios_with_real_stores_are_of_the_family_and_name_servers_that_there_are() -> None:
    assert {each.name for each in STORED} == {
        "hdfs-namenode-killed",
        "hdfs-datanode-killed",
        "s3-killed",
        "store-full",
        "store-slow",
        "store-fails",
    }
    assert all(each in chosen(["checkpoint"], SCENARIOS) for each in STORED)
    assert {each.store for each in SCENARIOS if each.store} == set(stored.SERVERS)
    assert all(each.expected.keeps_stored for each in STORED)


def test_where_a_server_is_not_installed_that_is_said_before_anything_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(s3, "gateway", lambda: tmp_path / "none")
    monkeypatch.setattr(stored.hdfs, "jars", lambda: tmp_path / "none")
    options = {"as_json": True, "seed": 1, "steps": 60, "folder": tmp_path / "lab"}
    assert main.run(BUILT, **options) == exitcodes.UNAVAILABLE
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["fault"]: line["skipped"].partition(".")[0] for line in told} == {
        each.name: f"no {'HDFS is here' if each.store == 'hdfs' else 'S3 server is built'}"
        for each in BUILT
    }
    assert all("make stores" in line["skipped"] for line in told)
    assert not (tmp_path / "lab").exists() or not list((tmp_path / "lab").iterdir())


def test_what_is_done_to_a_real_store_is_not_possible_without_one(tmp_path: Path) -> None:
    lab = Lab(tmp_path, nodes=1)
    for do in (store.killed_in_saves(store.namenode), store.full_and(_nothing)):
        with pytest.raises(NotPossible, match="beside an emulated cluster"):
            do(lab, "job", Random(1))


def _nothing(_lab: Lab, _job: str, _rng: Random) -> Done:
    return Done(said="nothing")


def test_a_save_is_under_way_from_its_beginning_to_its_manifest(tmp_path: Path) -> None:
    life = FileStore(str(tmp_path))
    assert stored.under_way(life) is None
    for step in (5, 10):
        folder = f"step-{step:08d}-epoch-1"
        life.put(f"{folder}/{BEGIN}", [b"{}"])
        assert stored.under_way(life) == folder
        life.put(f"{folder}/{MANIFEST}", [b"{}"])
        assert stored.under_way(life) is None
    (tmp_path / "file").touch()
    assert stored.under_way(FileStore(str(tmp_path / "file"))) is None, "it cannot be read now"


def test_what_a_server_needs_is_in_the_environment_for_its_time_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_KNOWN", "before")
    with stored._environment({"HOLDFAST_KNOWN": "x", "HOLDFAST_NEW": "y"}):
        assert (os.environ["HOLDFAST_KNOWN"], os.environ["HOLDFAST_NEW"]) == ("x", "y")
    assert os.environ["HOLDFAST_KNOWN"] == "before"
    assert "HOLDFAST_NEW" not in os.environ


def test_a_disk_that_is_full_takes_nothing_and_gives_what_it_has(small: S3) -> None:
    life = open_store("s3://small/x")
    life.put("a", [b"older"])
    with store._full(small):
        with pytest.raises(TemporaryStoreError, match=r"full|space"):
            life.put("b", [bytes(1 << 20)])
        assert b"".join(life.get("a")) == b"older"
    life.put("b", [bytes(1 << 20)])
    assert [one.name for one in life.entries("")] == ["a", "b"]


def test_a_disk_that_is_not_the_servers_own_is_not_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_BYTES", 0)
    server = S3(tmp_path)
    with pytest.raises(AssertionError, match="of the server's own"), store._full(server):
        raise NotImplementedError
    assert not list((tmp_path / "buckets").iterdir())


def test_the_disk_of_a_server_goes_with_it(small: S3) -> None:
    disk = small.disk
    info = os.statvfs(disk)
    assert info.f_blocks * info.f_frsize == 8 << 20
    mounts = Path("/proc/self/mounts").read_text()
    assert "buckets" not in mounts, "no other process sees it"
    assert (disk / "small").is_dir()
    with store._slow(small):
        eventually(lambda: _state(small.pid) == "T", "it stands")
    eventually(lambda: _state(small.pid) != "T", "it goes on")


def _state(pid: int) -> str:
    seen = procstat.stat(pid)
    return seen.state if seen else ""


def test_only_scenarios_with_a_real_store_ask_for_one(tmp_path: Path) -> None:
    with Stage(tmp_path, steps=60, seed=1, say=print) as stage:
        assert stage.cannot(named("rank-killed")) == ""
