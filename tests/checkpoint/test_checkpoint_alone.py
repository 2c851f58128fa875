"""A script that names its own store saves and restores without Holdfast."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from checkpoint_agent import AgentProcess  # noqa: E402 - after the check for torch
from checkpoint_job import INTERVAL, Job, persisted  # noqa: E402
from forked import forked  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.load_state import Mismatch  # noqa: E402
from holdfast.checkpoint.restoring import RestoreFailed  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.checkpoint.stores import (  # noqa: E402
    PermanentStoreError,
    TemporaryStoreError,
    open_store,
)
from holdfast.checkpoint.stores.file import FileStore  # noqa: E402
from holdfast.checkpoint.tools.one_file import read_file  # noqa: E402
from holdfast.protocol.messages import EARLIER, Restore  # noqa: E402
from holdfast.protocol.topology import Topology  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_SLOTS", "WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)


def made(store: Path, **options: Any) -> Checkpointer:
    return Checkpointer(store_url=store.as_uri(), **{"store_interval_steps": 5} | options)


def state(step: int = 0) -> dict[str, Any]:
    return {"w": torch.full((4,), float(step)), "data": {"position": step}}


def train(store: Path, first: int, last: int, **options: Any) -> Checkpointer:
    checkpointer = made(store, **options)
    for step in range(first, last + 1):
        assert checkpointer.save(step, state(step)) is (step % 5 == 0)
    return checkpointer


def folders(store: Path) -> list[str]:
    return sorted(path.parent.name for path in store.glob("*/manifest.json"))


def test_what_is_saved_is_restored_by_the_next_start(tmp_path: Path) -> None:
    train(tmp_path, 1, 12)
    found = state()
    assert made(tmp_path).restore(found) == 10
    assert found["data"] == {"position": 10}
    assert torch.equal(found["w"], torch.full((4,), 10.0))
    assert folders(tmp_path) == ["step-00000005-epoch-1", "step-00000010-epoch-1"]
    assert not list(tmp_path.glob("*/part-*"))


def test_the_next_start_has_its_own_number_and_the_oldest_go(tmp_path: Path) -> None:
    train(tmp_path, 1, 10)
    again = made(tmp_path)
    assert again.restore(state()) == 10
    for step in range(11, 21):
        again.save(step, state(step))
    assert folders(tmp_path) == ["step-00000015-epoch-2", "step-00000020-epoch-2"]


def test_an_empty_store_is_a_fresh_start(tmp_path: Path) -> None:
    assert made(tmp_path / "new").restore(state()) is None


def damage(store: Path, step: int) -> None:
    path = next(store.glob(f"step-{step:08d}-*/shard-*"))
    path.write_bytes(path.read_bytes()[:-1])


def test_a_damaged_one_is_told_and_the_one_before_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(tmp_path, 1, 10)
    damage(tmp_path, 10)
    with caplog.at_level(logging.WARNING):
        assert made(tmp_path).restore(state()) == 5
    assert "checkpoint refused: step-00000010-epoch-1/shard-00000-of-00001" in caplog.text


def test_where_all_are_damaged_nothing_begins_anew(tmp_path: Path) -> None:
    train(tmp_path, 1, 5)
    damage(tmp_path, 5)
    with pytest.raises(RestoreFailed, match=r"no checkpoint at file.* can be believed: step-0"):
        made(tmp_path).restore(state())


def test_other_shapes_are_each_listed_and_nothing_changes(tmp_path: Path) -> None:
    train(tmp_path, 1, 5)
    other = {"w": torch.zeros(2), "more": torch.zeros(1), "data": {"position": -1}}
    with pytest.raises(Mismatch) as raised:
        made(tmp_path).restore(other)
    assert "w: torch.float32 [2] here, but the checkpoint has torch.float32 [4]" in str(
        raised.value
    )
    assert "more: not in the checkpoint" in str(raised.value)
    assert str(raised.value).endswith(
        "name another store_url, and begin_from for a checkpoint that fits."
    )
    assert other["data"] == {"position": -1}
    assert torch.equal(other["w"], torch.zeros(2))


def test_what_was_torn_was_never_whole_and_is_no_damage(tmp_path: Path) -> None:
    train(tmp_path, 1, 5)
    next(tmp_path.glob("*/manifest.json")).unlink()
    assert made(tmp_path).restore(state()) is None


def test_one_that_cannot_be_read_now_may_be_whole_and_no_older_one_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tmp_path, 1, 10)
    get = FileStore.get

    def away(store: FileStore, path: str, **options: Any) -> Iterator[bytes]:
        if path.startswith("step-00000010") and path.endswith("manifest.json"):
            raise TemporaryStoreError("planted")
        return get(store, path, **options)

    monkeypatch.setattr(FileStore, "get", away)
    with pytest.raises(RestoreFailed, match="planted"):
        made(tmp_path).restore(state())


def test_a_store_that_deletes_nothing_has_the_new_one_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(store: FileStore, path: str) -> None:
        raise PermanentStoreError("planted")

    monkeypatch.setattr(FileStore, "delete", refused)
    assert train(tmp_path, 1, 15).skipped == 0
    assert len(folders(tmp_path)) == 3
    assert "old checkpoints are not deleted: planted" in caplog.text


def test_an_unknown_store_is_refused_at_once() -> None:
    with pytest.raises(PermanentStoreError, match="'gopher://x/y' is no store that this Holdfast"):
        Checkpointer(store_url="gopher://x/y")


def test_a_store_that_cannot_be_written_is_told_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RestoreFailed, match="Not a directory"):
        made(tmp_path / "file" / "in").restore(state())


def test_the_store_of_a_job_is_refused(tmp_path: Path) -> None:
    job = Job(tmp_path)
    agent = AgentProcess()
    agent.give(job.order(0))
    job.save(INTERVAL)
    agent.until(persisted(INTERVAL), "committed")
    agent.close()
    with pytest.raises(RestoreFailed, match="written by job 'job', this is job 'alone'"):
        made(job.store).restore({"w": torch.zeros(4_000)})
    found = {"w": torch.zeros(4_000)}
    assert made(tmp_path / "own", begin_from=job.store.as_uri()).restore(found) == INTERVAL
    assert torch.equal(found["w"], torch.full((4_000,), float(INTERVAL)))


def test_nothing_begins_anew_among_the_lives_of_jobs(tmp_path: Path) -> None:
    """Their `storeUrl`, one folder above what each of them wrote."""
    train(tmp_path / "ckpt" / "life-1", 1, 10)
    with pytest.raises(RestoreFailed, match="has checkpoints in life-1, which is another job's"):
        made(tmp_path / "ckpt").restore(state())
    assert not list((tmp_path / "ckpt").glob("step-*"))
    life = (tmp_path / "ckpt" / "life-1").as_uri()
    assert made(tmp_path / "ckpt", begin_from=life).restore(state()) == 10


def test_to_begin_from_nothing_is_refused(tmp_path: Path) -> None:
    nowhere = (tmp_path / "nowhere").as_uri()
    with pytest.raises(RestoreFailed, match="beginFrom: there is no checkpoint at file"):
        made(tmp_path / "own", begin_from=nowhere).restore(state())


def test_several_ranks_have_to_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RestoreFailed, match=r"Call torch\.distributed\.init_process_group first"):
        made(tmp_path).restore(state())


@pytest.mark.parametrize("options", [{"store_interval_steps": 0}, {"retention": 0}], ids=str)
def test_numbers_that_mean_nothing_are_refused(tmp_path: Path, options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))}: 0 is less than 1"):
        made(tmp_path, **options)


def test_a_save_that_fails_stops_no_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpointer = made(tmp_path)
    checkpointer.restore(state())
    tmp_path.joinpath("step-00000005-epoch-1").touch()
    assert not checkpointer.save(5, state(5))
    assert checkpointer.skipped == 1
    assert checkpointer.save(10, state(10))


def test_another_start_on_the_same_store_ends_the_saves_of_this_one(tmp_path: Path) -> None:
    first = made(tmp_path)
    first.restore(state())
    made(tmp_path).restore(state())
    assert not first.save(5, state(5))
    assert folders(tmp_path) == []


def test_in_holdfast_the_jobs_own_store_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOLDFAST_SLOTS", str(tmp_path / "slots"))
    checkpointer = made(tmp_path / "store")
    assert checkpointer.restore(state()) is None
    assert checkpointer.save(1, state(1))
    assert not (tmp_path / "store").exists()
    assert "store_url is not used" in caplog.text


RANKS = Path(__file__).parent.parent / "helpers" / "alone_ranks.py"


@pytest.mark.slow
def test_ranks_that_meet_save_one_checkpoint_and_start_from_the_same(tmp_path: Path) -> None:
    store = tmp_path / "store"

    def run(steps: int) -> str:
        """What went wrong; "" where nothing did."""
        done = processes.run(RANKS, store.as_uri(), str(steps), str(tmp_path))
        return done.stderr if done.returncode else ""

    with forked(tmp_path, "alone_ranks") as processes:
        assert not run(7)
        assert not run(12)
        assert folders(store) == ["step-00000005-epoch-1", "step-00000010-epoch-2"]
        for rank in range(2):
            told = json.loads((tmp_path / f"{rank}.json").read_text())
            read = [f"shard-0000{rank}-of-00002.safetensors"]  # what it had written, and no more
            assert told == {"start": 5, "sum": [78.0] * 3, "rank": rank, "read": read}

        second = store / "step-00000010-epoch-2" / "shard-00001-of-00002.safetensors"
        data = bytearray(second.read_bytes())
        data[-1] ^= 1
        second.write_bytes(data)
        said = run(13)
        assert "shard-00001-of-00002.safetensors: its checksum does not match" in said
        assert "step-00000010-epoch-2: another rank cannot read its shard" in said
        noted = (second.parent / "refused.txt").read_text()
        assert "its checksum does not match" in noted, "the reason of who could not read it"
        assert not run(14)
        told = json.loads((tmp_path / "0.json").read_text())
        assert told["start"] == 5, "the one before takes its place"


def of_others(folder: Path, tensors: dict[str, Any], key: str = "model") -> str:
    """A store that was made of a file of weights."""
    path, url = folder / "theirs.safetensors", (folder / "made").as_uri()
    save_file(tensors, path)
    read_file(path, open_store(url), key=key, step=0)
    return url


def test_weights_of_others_are_begun_from_and_the_rest_of_the_state_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, mine = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    url = of_others(tmp_path, dict(theirs.state_dict()))
    optimizer = torch.optim.AdamW(mine.parameters(), lr=0.25)
    found = {"model": mine, "optimizer": optimizer, "data": {"position": 7}}
    with caplog.at_level(logging.WARNING):
        assert made(tmp_path / "own", begin_from=url).restore(found) == 0
    assert torch.equal(mine.weight, theirs.weight)
    assert optimizer.param_groups[0]["lr"] == 0.25
    assert found["data"] == {"position": 7}
    assert "what was restored are weights alone; as they were: optimizer, data" in caplog.text


def test_each_of_several_ranks_has_them(tmp_path: Path) -> None:
    theirs, mine = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    settings = Settings(
        job="job",
        epoch=1,
        rank=1,
        world_size=2,
        topology=Topology(dp=2),
        slots=tmp_path / "r1",
        store_url=(tmp_path / "own").as_uri(),
        begin_from=of_others(tmp_path, dict(theirs.state_dict())),
        restore=Restore(source="store", step=0, epoch=EARLIER),
    )
    found = {"model": mine, "rate": torch.ones(1)}
    assert Checkpointer(settings).restore(found) == 0
    assert torch.equal(mine.weight, theirs.weight)
    assert torch.equal(found["rate"], torch.ones(1))


@pytest.mark.parametrize(
    ("key", "bias", "why"),
    [
        ("net", True, r"net: all that the checkpoint has .* and not here"),
        ("model", False, "model.bias: not in the checkpoint"),
    ],
)
def test_weights_that_are_not_those_of_the_state_are_refused(
    tmp_path: Path, key: str, bias: bool, why: str
) -> None:
    url = of_others(tmp_path, dict(torch.nn.Linear(3, 2, bias=bias).state_dict()), key)
    found = {"model": torch.nn.Linear(3, 2)}
    with pytest.raises(Mismatch, match=why) as raised:
        made(tmp_path / "own", begin_from=url).restore(found)
    assert f"step 0 of {url} does not fit" in str(raised.value)
    assert "Name another checkpoint (--begin-from, beginFrom, begin_from)" in str(raised.value)
    assert list(found) == ["model"]
