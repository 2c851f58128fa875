"""What ranks that restore together tell each other is believed by its checksum, too."""

import pytest
import xxhash

pytest.importorskip("torch")

from holdfast.checkpoint.fetch import Refused
from holdfast.checkpoint.manifest import File, Manifest, Part
from holdfast.checkpoint.together import Company, ElsewhereRefused, _check_told

pytestmark = pytest.mark.torch

READ = b"what rank 1 has read"
SHARD = File("shard-00001-of-00002.safetensors", len(READ), xxhash.xxh3_64_hexdigest(READ))
MANIFEST = Manifest(
    job="job",
    step=10,
    epoch=1,
    world_size=2,
    parts=(
        Part(rank=0, step=10, epoch=1, world_size=2, elsewhere={"w": 1}),
        Part(rank=1, step=10, epoch=1, world_size=2, shard=SHARD),
    ),
)


class Doubts(Company):
    """Of which another rank was told something else."""

    def agree(self, well: bool) -> bool:
        return False


def test_what_another_rank_tells_is_compared_with_what_was_read() -> None:
    company = Company(1)
    _check_told("step", MANIFEST, 0, {1: bytearray(READ)}, company)
    with pytest.raises(Refused, match=r"step/shard-00001.*: what rank 1 told of it has another"):
        _check_told("step", MANIFEST, 0, {1: bytearray(len(READ))}, company)


def test_where_one_rank_was_told_something_else_none_goes_on() -> None:
    with pytest.raises(ElsewhereRefused, match="another rank was told other bytes"):
        _check_told("step", MANIFEST, 0, {1: bytearray(READ)}, Doubts(1))
