"""What a look-up of the store reads and believes: no more than a restore needs."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import xxhash

from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.fence import Superseded
from holdfast.checkpoint.fetch import NotBelieved, Unreadable, refuse, whole
from holdfast.checkpoint.layout import MANIFEST, REFUSED, folder_name, shard_name
from holdfast.checkpoint.lookup import TRIES, LookUp
from holdfast.checkpoint.manifest import File, Part, encode, merge
from holdfast.checkpoint.settings import Settings
from holdfast.checkpoint.stores import TemporaryStoreError
from holdfast.checkpoint.stores.file import FileStore
from holdfast.protocol.messages import Restore, Stored

SHARD = shard_name(0, 1)


class Watched(FileStore):
    """A store that remembers which files were read."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.read: list[str] = []

    def get(self, path: str, *, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        self.read.append(path)
        return super().get(path, begin=begin, end=end)

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


def url(root: Path) -> str:
    return f"file://{root}"


def damage(root: Path, step: int) -> None:
    """One byte is another one: no size tells."""
    path = root / folder(step) / SHARD
    path.write_bytes(b"\xff" + path.read_bytes()[1:])


def steps(store: Watched) -> list[int]:
    return [one.step for one in whole(store) if isinstance(one, Stored)]


def test_no_byte_of_a_shard_is_read(store: Watched) -> None:
    assert steps(store) == [30, 20, 10]
    assert store.shards == []


def test_what_a_rank_refused_is_read_through_after_all_others_were_told(
    store: Watched, tmp_path: Path
) -> None:
    refuse(store, folder(30), "a rank said so")
    told = whole(store)
    assert [next(told), next(told)] == [Stored(step=20, epoch=1), Stored(step=10, epoch=1)]
    assert store.shards == []
    assert list(told) == [Stored(step=30, epoch=1)], "it is whole after all"
    assert store.shards == [folder(30)]


def test_what_a_rank_refused_is_not_read_where_a_newer_one_is_whole(
    store: Watched, tmp_path: Path
) -> None:
    refuse(store, folder(20), "a rank said so")
    assert steps(store) == [30, 10]
    assert store.shards == []


def test_reading_through_ends_when_something_else_is_wanted(store: Watched, tmp_path: Path) -> None:
    refuse(store, folder(30), "a rank said so")
    asked: list[int] = []

    def go_on() -> None:
        asked.append(1)
        if len(asked) > 3:
            raise Superseded("another order")

    with pytest.raises(Superseded):
        list(whole(store, go_on=go_on))


class Sick(Watched):
    """A store that fails at one checkpoint's manifest, or at all."""

    at = folder_name(30, 1)

    def get(self, path: str, *, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        if path.startswith(self.at):
            raise TemporaryStoreError(f"store: cannot read {path}: Input/output error.")
        return super().get(path, begin=begin, end=end)


def test_one_that_cannot_be_read_hides_no_older_one(store: Watched, tmp_path: Path) -> None:
    first, *older = whole(Sick(tmp_path))
    assert isinstance(first, NotBelieved)
    assert isinstance(first.why, Unreadable)
    assert "Input/output error" in str(first.why)
    assert older == [Stored(step=20, epoch=1), Stored(step=10, epoch=1)]


def look(tmp_path: Path, tell: Callable[[str], None] = lambda _: None) -> LookUp:
    return LookUp(
        AgentOrder(id=1, job="job", epoch=2, store_url=url(tmp_path), look_up_store=True), tell
    )


def test_a_look_up_is_not_done_before_it_has_tried_again_what_cannot_be_read(
    store: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.checkpoint.lookup.open_store", lambda _: Sick(tmp_path))
    asked = look(tmp_path)
    for _ in range(TRIES - 1):
        with pytest.raises(TemporaryStoreError):
            asked.advance(lambda: None)
        assert not asked.done
        assert [one.step for one in asked.found] == [20, 10], "told as far as it is known"
    asked.advance(lambda: None)
    assert asked.done
    assert [one.step for one in asked.found] == [20, 10]
    assert [one.step for one in asked.damaged] == [30]


def test_a_store_of_which_nothing_can_be_read_is_never_empty(
    store: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sick, "at", "")
    monkeypatch.setattr("holdfast.checkpoint.lookup.open_store", lambda _: Sick(tmp_path))
    asked = look(tmp_path)
    for _ in range(3 * TRIES):
        with pytest.raises(TemporaryStoreError):
            asked.advance(lambda: None)
    assert (asked.done, asked.found, asked.damaged) == (False, (), ())


class Full(Watched):
    """A store that takes no more."""

    def put(self, path: str, chunks: Iterable[bytes]) -> None:
        raise TemporaryStoreError(f"store: cannot write {path}: No space left on device.")


def test_a_store_that_takes_no_more_is_read_all_the_same(
    store: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.checkpoint.lookup.open_store", lambda _: Full(tmp_path))
    said: list[str] = []
    asked = look(tmp_path, said.append)
    for _ in range(TRIES - 1):
        with pytest.raises(TemporaryStoreError):
            asked.advance(lambda: None)
        assert not asked.done
    asked.advance(lambda: None)
    assert asked.done
    assert [one.step for one in asked.found] == [30, 20, 10]
    (told,) = said
    assert told.startswith("older attempts can still write to the store: store: cannot write fence")


@pytest.mark.parametrize("size", [0, 999, 1_001])
def test_an_older_one_of_another_size_is_refused_unread(
    store: Watched, tmp_path: Path, size: int
) -> None:
    (tmp_path / folder(20) / SHARD).write_bytes(b"x" * size)
    found = list(whole(store))
    assert [type(one) for one in found] == [Stored, NotBelieved, Stored]
    assert f"{folder(20)}/{SHARD}: {size} bytes, the manifest says 1000" in str(found[1].why)
    assert store.shards == []


@pytest.mark.torch
def test_what_a_rank_could_not_believe_is_read_through_at_the_next_look_up(
    store: Watched, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    from holdfast.checkpoint.checkpointer import Checkpointer
    from holdfast.checkpoint.restoring import RestoreFailed

    damage(tmp_path, 30)
    assert steps(store) == [30, 20, 10], "nobody has read it yet"
    settings = Settings(
        job="job",
        epoch=2,
        slots=tmp_path / "slots",
        store_url=f"file://{tmp_path}",
        restore=Restore(source="store", step=30, epoch=1),
    )
    with pytest.raises(RestoreFailed, match="its checksum does not match"):
        Checkpointer(settings).restore({})
    assert "checksum" in (tmp_path / folder(30) / REFUSED).read_text()
    assert steps(store) == [20, 10]
