"""An upload reads each byte of a slot once, and publishes nothing of a slot that has changed."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import xxhash
from msgspec import structs

torch = pytest.importorskip("torch")

from checkpoint_job import INTERVAL, Job  # noqa: E402 - after the check that torch is there
from slot_sums import sum_of  # noqa: E402

from holdfast.checkpoint import digest  # noqa: E402
from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.layout import parse_head  # noqa: E402
from holdfast.checkpoint.manifest import decode_part  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.checkpoint.shards import Damaged, write_part  # noqa: E402
from holdfast.checkpoint.slot_folder import SlotFolder  # noqa: E402
from holdfast.checkpoint.slots import Slot  # noqa: E402
from holdfast.checkpoint.stores import Buffer, StoreError  # noqa: E402
from holdfast.checkpoint.stores.file import FileStore  # noqa: E402
from holdfast.checkpoint.upload import Upload  # noqa: E402
from holdfast.checkpoint.words import Seal  # noqa: E402
from holdfast.protocol.topology import Topology  # noqa: E402

pytestmark = pytest.mark.torch

ELEMENTS = 700_000
FOLDER = "step-00000010-epoch-1"


def saved(root: Path, rank: int = 0) -> tuple[Slot, Seal]:
    """A slot of a rank of two: `shared` is written by one of them, `own` by each."""
    settings = Settings(
        job="job",
        epoch=1,
        rank=rank,
        world_size=2,
        topology=Topology(dp=2),
        slots=root / f"r{rank}",
    )
    state = {"shared": {"w": torch.arange(ELEMENTS)}, "own": torch.full((ELEMENTS,), rank + 0.5)}
    assert Checkpointer(settings, replicated=["shared"]).save(INTERVAL, state)
    return SlotFolder(root / f"r{rank}").sealed()[0]


def flip(slot: Slot, at: int) -> None:
    with slot.data.open("r+b") as file:
        file.seek(at)
        (old,) = file.read(1)
        file.seek(at)
        file.write(bytes([old ^ 1]))


@pytest.mark.parametrize("rank", [0, 1])
def test_what_is_written_has_the_sums_of_what_the_slot_has(tmp_path: Path, rank: int) -> None:
    slot, seal = saved(tmp_path, rank)
    store, took = FileStore(str(tmp_path / "store")), []
    with slot.locked(exclusive=False) as fd:
        assert fd is not None
        write_part(store, slot, seal, fd, go_on=lambda: None, took=took.append)
    part = decode_part((tmp_path / "store" / FOLDER / f"part-0000{rank}.json").read_bytes())
    assert sum(took) == seal.used_bytes - seal.head_bytes, "each byte of data once"
    assert part.shard is not None
    shard = (tmp_path / "store" / FOLDER / part.shard.name).read_bytes()
    assert (len(shard), xxhash.xxh3_64_hexdigest(shard)) == (part.shard.size_bytes, part.shard.xxh3)
    shared = torch.arange(ELEMENTS).numpy().tobytes()
    assert part.replicas["shared.w"] == xxhash.xxh3_64_hexdigest(shared)


@pytest.mark.parametrize("where", ["first", "last", "of a replica"])
def test_a_slot_that_has_changed_leaves_no_shard_and_no_part(tmp_path: Path, where: str) -> None:
    rank = 1 if where == "of a replica" else 0
    slot, seal = saved(tmp_path, rank)
    flip(slot, {"first": seal.head_bytes, "last": seal.used_bytes - 1}.get(where, seal.head_bytes))
    with slot.locked(exclusive=False) as fd:
        assert fd is not None
        with pytest.raises(Damaged, match="the memory slot has changed"):
            write_part(FileStore(str(tmp_path)), slot, seal, fd, go_on=lambda: None)
    assert list(tmp_path.glob("step-*/*")) == []


def test_the_agent_gives_such_a_step_up_and_the_slot_is_not_used(tmp_path: Path) -> None:
    job, notes = Job(tmp_path), []
    job.save(INTERVAL)
    slot, seal = SlotFolder(tmp_path / "r0").sealed()[0]
    flip(slot, seal.used_bytes - 1)
    upload = Upload(job.order(0), tell=notes.append, go_on=lambda: None)
    upload.advance()
    assert slot.seal() is None
    assert "the memory slot has changed" in notes[0]
    assert job.whole() == []


def test_pieces_are_the_same_however_the_data_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest, "PIECE_BYTES", 1_000)
    _, seal = saved(tmp_path)
    data = memoryview(bytes(range(256)) * 20)
    for length in (0, 1, 999, 1_000, 1_001, 3_000, len(data)):
        pieces = [
            xxhash.xxh3_64_digest(data[at : min(at + 1_000, length)])
            for at in range(0, length, 1_000)
        ]
        wanted = digest.combined(seal, pieces)
        for step in (1, 7, 1_000, 2_500):
            running = digest.Running(seal)
            for at in range(0, length, step):
                running.update(data[at : min(at + step, length)])
            assert running.hexdigest() == wanted, (length, step)


def test_the_checksum_is_that_of_all_bytes_whatever_threads_take_it(tmp_path: Path) -> None:
    state = {f"layer-{n}": torch.full((n * 100_003,), float(n)) for n in range(12)}
    before = torch.get_num_threads()
    sums = set()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            slots = tmp_path / f"{threads}"
            assert Checkpointer(Settings(job="job", epoch=1, slots=slots)).save(1, state)
            slot, seal = SlotFolder(slots).sealed()[0]
            with slot.locked(exclusive=False) as fd:
                assert fd is not None
                assert sum_of(slot, fd, seal) == slot.known_sum(seal)
            data = slot.data.read_bytes()[seal.head_bytes : seal.used_bytes]
            sums.add(xxhash.xxh3_64_hexdigest(data))
    finally:
        torch.set_num_threads(before)
    assert len(sums) == 1


def test_a_tensor_of_several_pieces_lies_in_the_slot_as_it_was(tmp_path: Path) -> None:
    state = {"first": torch.ones(3), "w": torch.arange(11_000_003, dtype=torch.float32)}
    assert Checkpointer(Settings(job="job", epoch=1, slots=tmp_path)).save(1, state)
    slot, seal = SlotFolder(tmp_path).sealed()[0]
    data = slot.data.read_bytes()[: seal.used_bytes]
    placed = parse_head(memoryview(data)).tensors["w"]
    assert placed.end - placed.begin > 2 * digest.PIECE_BYTES
    assert data[placed.begin : placed.end] == state["w"].numpy().tobytes()


def test_the_checksum_speaks_for_the_seal_too(tmp_path: Path) -> None:
    _, seal = saved(tmp_path)
    other = structs.replace(seal, step=seal.step + 1)
    assert digest.combined(seal, [b"data"]) != digest.combined(other, [b"data"])


class Breaks(FileStore):
    """Takes some, and then no more."""

    def put(self, path: str, chunks: Iterable[Buffer]) -> None:
        def some() -> Iterator[Buffer]:
            yield next(iter(chunks))
            raise OSError(5, "planted")

        super().put(path, some())


def test_a_store_that_breaks_half_way_is_no_damage_of_the_slot(tmp_path: Path) -> None:
    slot, seal = saved(tmp_path)
    with slot.locked(exclusive=False) as fd:
        assert fd is not None
        with pytest.raises(StoreError, match="store: cannot write"):
            write_part(Breaks(str(tmp_path)), slot, seal, fd, go_on=lambda: None)
        write_part(FileStore(str(tmp_path)), slot, seal, fd, go_on=lambda: None)
