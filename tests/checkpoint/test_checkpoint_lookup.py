"""What a look-up of the store reads and believes: no more than a restore needs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import xxhash

from holdfast.checkpoint.fetch import Refused, whole
from holdfast.checkpoint.layout import MANIFEST, REFUSED, folder_name, shard_name
from holdfast.checkpoint.manifest import File, Part, encode, merge
from holdfast.checkpoint.settings import Settings
from holdfast.checkpoint.stores.file import FileStore
from holdfast.protocol.messages import Restore, Stored

SHARD = shard_name(0, 1)


class Watched(FileStore):
    """A store that remembers which files were read."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.read: list[str] = []

    def get(self, path: str) -> Iterator[bytes]:
        self.read.append(path)
        return super().get(path)

    @property
    def shards(self) -> list[str]:
        return [path.partition("/")[0] for path in self.read if path.endswith(SHARD)]


@pytest.fixture
def store(tmp_path: Path) -> Watched:
    """Steps 10, 20 and 30 of epoch 1, one rank."""
    store = Watched(tmp_path)
    for step in (10, 20, 30):
        data = bytes([step]) * 1_000
        file = File(SHARD, len(data), xxhash.xxh3_64_hexdigest(data))
        part = Part(rank=0, step=step, epoch=1, world_size=1, shard=file)
        store.put(f"{folder(step)}/{SHARD}", [data])
        store.put(f"{folder(step)}/{MANIFEST}", [encode(merge("job", [part]))])
    return store


def folder(step: int) -> str:
    return folder_name(step, 1)


def damage(root: Path, step: int) -> None:
    """One byte is another one: no size tells."""
    path = root / folder(step) / SHARD
    path.write_bytes(b"\xff" + path.read_bytes()[1:])


def steps(store: Watched) -> list[int]:
    return [one.step for one in whole(store) if isinstance(one, Stored)]


def test_only_the_newest_checkpoint_is_read_through(store: Watched) -> None:
    assert steps(store) == [30, 20, 10]
    assert store.shards == [folder(30)]


def test_the_next_one_is_read_through_where_the_newest_is_damaged(
    store: Watched, tmp_path: Path
) -> None:
    damage(tmp_path, 30)
    assert steps(store) == [20, 10]
    assert store.shards == [folder(30), folder(20)]


@pytest.mark.parametrize("size", [0, 999, 1_001])
def test_an_older_one_of_another_size_is_refused_unread(
    store: Watched, tmp_path: Path, size: int
) -> None:
    (tmp_path / folder(20) / SHARD).write_bytes(b"x" * size)
    found = list(whole(store))
    assert [type(one) for one in found] == [Stored, Refused, Stored]
    assert f"{folder(20)}/{SHARD}: {size} bytes, the manifest says 1000" in str(found[1])
    assert store.shards == [folder(30)]


@pytest.mark.torch
def test_what_a_rank_could_not_believe_is_read_through_at_the_next_look_up(
    store: Watched, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    from holdfast.checkpoint.checkpointer import Checkpointer, RestoreFailed

    damage(tmp_path, 20)
    assert steps(store) == [30, 20, 10], "nobody has read it yet"
    settings = Settings(
        job="job",
        epoch=2,
        slots=tmp_path / "slots",
        store_url=f"file://{tmp_path}",
        restore=Restore(source="store", step=20, epoch=1),
    )
    with pytest.raises(RestoreFailed, match="its checksum does not match"):
        Checkpointer(settings).restore({})
    assert "checksum" in (tmp_path / folder(20) / REFUSED).read_text()
    assert steps(store) == [30, 10]
