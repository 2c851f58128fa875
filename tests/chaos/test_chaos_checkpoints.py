"""What is done to a checkpoint is a real damage, the same for the same seed."""

from pathlib import Path
from random import Random

import msgspec
import pytest
import xxhash
from slot_sums import sum_of

from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.slots import Slot
from holdfast.checkpoint.words import Seal
from holdfast.lab.chaos.injectors import checkpoint, snapshots
from holdfast.lab.chaos.scenarios import SCENARIOS, chosen
from holdfast.protocol.topology import Topology


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rank-0.safetensors").write_bytes(bytes(range(256)))
    (tmp_path / "rank-1.safetensors").write_bytes(bytes(range(256)))
    (tmp_path / "manifest.json").write_text('{"xxh3": "0", "content": {}}')
    return tmp_path


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("damage", [checkpoint.flip, checkpoint.truncate, checkpoint.drop])
def test_damage_hits_one_shard_and_leaves_the_manifest(folder, damage):
    before = content(folder)
    said = damage(folder, Random(1))
    after = content(folder)
    changed = [name for name in before if before[name] != after.get(name)]
    assert len(changed) == 1
    assert changed[0] in said
    assert after["manifest.json"] == before["manifest.json"]


def test_a_flip_is_one_bit(folder):
    before = content(folder)
    checkpoint.flip(folder, Random(1))
    bits = [
        bin(old ^ new).count("1")
        for name, octets in content(folder).items()
        for old, new in zip(before[name], octets, strict=True)
    ]
    assert sum(bits) == 1


def test_a_torn_manifest_leaves_the_shards(folder):
    before = content(folder)
    checkpoint.tear(folder, Random(1))
    after = content(folder)
    assert after["manifest.json"] == before["manifest.json"][:14]
    assert after["rank-0.safetensors"] == before["rank-0.safetensors"]


@pytest.fixture
def sealed(tmp_path: Path) -> tuple[Slot, Seal]:
    slot = SlotFolder(tmp_path / "r0").slots[0]
    slot.make(4_096)
    slot.data.write_bytes(bytes(range(256)) * 16)
    head = slot.data.read_bytes()[:100]
    seal = Seal(
        job="j",
        epoch=1,
        step=2,
        rank=0,
        world_size=1,
        topology=Topology(),
        used_bytes=4_000,
        head_bytes=len(head),
        head_xxh3=xxhash.xxh3_64_hexdigest(head),
        tree=msgspec.Raw(b"{}"),
    )
    with slot.locked(exclusive=True) as fd:
        assert fd is not None
        digest = sum_of(slot, fd, seal)
        assert digest is not None
        slot.put_seal(seal, digest)
    return slot, seal


def whole(slot: Slot, seal: Seal) -> bool:
    with slot.locked(exclusive=False) as fd:
        assert fd is not None
        return slot.seal() == seal and slot.known_sum(seal) == sum_of(slot, fd, seal)


@pytest.mark.parametrize(
    "damage", [snapshots.in_data, snapshots.in_head, snapshots.in_seal, snapshots.in_sum]
)
@pytest.mark.parametrize("seed", range(20))
def test_a_snapshot_of_which_any_bit_is_another_one_is_not_whole(sealed, damage, seed) -> None:
    assert whole(*sealed)
    before = content(sealed[0].data.parent)
    file = damage(*sealed, Random(seed))
    after = content(sealed[0].data.parent)
    assert [name for name in before if before[name] != after[name]] == [file.name]
    assert not whole(*sealed)


def test_all_that_is_done_to_checkpoints_is_a_family_and_in_all() -> None:
    family = {each.name for each in chosen(["checkpoint"], SCENARIOS)}
    assert {"store-down", "save-torn", "snapshot-unseen"} <= family
    assert family < {each.name for each in chosen(["all"], SCENARIOS)}
    assert not {each.number for each in chosen(["all"], SCENARIOS)} & {0}
