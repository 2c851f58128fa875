"""A checkpoint of thousands of ranks: how often the store is asked, and by whom."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.checkpoint import upload as uploads
from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.layout import MANIFEST, folder_name, part_name, shard_name
from holdfast.checkpoint.manifest import File, Part, decode_manifest, encode
from holdfast.checkpoint.stores import Buffer, NotStored, StoredFile
from holdfast.checkpoint.upload import READERS, Upload
from holdfast.protocol.topology import Topology

RANKS = 4_000
STEP = 50
FOLDER = folder_name(STEP, 1)


class Counting:
    """A store in memory that counts what it is asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: Counter[str] = Counter()

    def put(self, path: str, chunks: Iterable[Buffer]) -> None:
        self.asked["put"] += 1
        self.files[path] = b"".join(bytes(chunk) for chunk in chunks)

    def get(self, path: str) -> Iterator[bytes]:
        self.asked["get"] += 1
        if path not in self.files:
            raise NotStored(path)
        yield self.files[path]

    def entries(self, folder: str) -> list[StoredFile]:
        self.asked["entries"] += 1
        inside = [path for path in self.files if path.startswith(f"{folder}/")]
        return [StoredFile(path.rsplit("/", 1)[1], 1, False) for path in inside]

    def delete(self, path: str) -> None:
        self.asked["delete"] += 1


def part_of(rank: int, world_size: int) -> bytes:
    shard = File(shard_name(rank, world_size), 1, "0")
    topology = Topology(dp=world_size)
    return encode(
        Part(rank=rank, step=STEP, epoch=1, world_size=world_size, topology=topology, shard=shard)
    )


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Counting:
    made = Counting()
    monkeypatch.setattr(uploads, "open_store", lambda url: made)
    return made


def leader(root: Path, world_size: int) -> Upload:
    order = AgentOrder(
        id=1,
        job="job",
        epoch=1,
        ranks=(0,),
        slots={0: str(root)},
        world_size=world_size,
        store_url="made://up",
        store_interval_steps=STEP,
    )
    upload = Upload(order, tell=print, go_on=lambda: None)
    upload._begun = STEP
    return upload


def test_the_leader_of_thousands_lists_once_and_reads_a_part_a_rank(
    tmp_path: Path, store: Counting
) -> None:
    for rank in range(RANKS):
        store.files[f"{FOLDER}/{part_name(rank)}"] = part_of(rank, RANKS)
    upload = leader(tmp_path, RANKS)
    upload.advance()
    assert upload.persisted_step == STEP
    manifest = decode_manifest(store.files[f"{FOLDER}/{MANIFEST}"], step=STEP, epoch=1)
    assert len(manifest.parts) == RANKS
    own = 2  # is there a manifest, is its own part there
    fences = 1
    assert store.asked == {"get": RANKS + own, "entries": 1 + fences, "put": 1}


def test_while_parts_are_missing_looks_grow_apart(tmp_path: Path, store: Counting) -> None:
    world_size = 3
    store.files[f"{FOLDER}/{part_name(0)}"] = part_of(0, world_size)
    upload = leader(tmp_path, world_size)
    rounds = 3_000  # five minutes
    for _ in range(rounds):
        upload.advance()
    assert upload.persisted_step is None
    assert store.asked["entries"] <= 90
    assert store.asked["get"] == 2, "its own are looked for once"
    for rank in range(1, world_size):
        store.files[f"{FOLDER}/{part_name(rank)}"] = part_of(rank, world_size)
    for _ in range(uploads.MOST_ROUNDS + 1):
        upload.advance()
    assert upload.persisted_step == STEP


def test_parts_are_read_at_once(
    tmp_path: Path, store: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    from threading import Barrier

    from waiting import DEADLINE_S

    for rank in range(READERS):
        store.files[f"{FOLDER}/{part_name(rank)}"] = part_of(rank, READERS)
    together, read = Barrier(READERS), store.get
    upload = leader(tmp_path, READERS)
    upload._there = {MANIFEST: False, part_name(0): True}

    def waits_for_all(path: str) -> Iterator[bytes]:
        together.wait(DEADLINE_S)
        return read(path)

    monkeypatch.setattr(store, "get", waits_for_all)
    upload.advance()
    assert upload.persisted_step == STEP
    assert msgspec.json.decode(store.files[f"{FOLDER}/{MANIFEST}"])
