"""What is done to a checkpoint is a real damage, the same for the same seed."""

from pathlib import Path
from random import Random

import pytest

from holdfast.lab.chaos.injectors import checkpoint


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
