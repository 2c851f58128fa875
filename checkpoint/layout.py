"""How tensors lie in a file, and what files are called. Pure; used by ranks and agents.

A slot in memory and a shard in a store have one layout, that of safetensors: eight bytes with the
header's length, the header as JSON, the tensors without a gap. Must not touch a file.
"""

import json
import re
import struct
from collections.abc import Mapping
from math import prod

import msgspec

from holdfast.protocol.topology import Axis

ITEM_BYTES: dict[str, int] = {
    **dict.fromkeys("F64 I64 U64 C64".split(), 8),
    **dict.fromkeys("F32 I32 U32".split(), 4),
    **dict.fromkeys("F16 BF16 I16 U16".split(), 2),
    **dict.fromkeys("I8 U8 BOOL F8_E4M3 F8_E5M2".split(), 1),
}
"""The element types of safetensors that torch has too, with their sizes in bytes."""

ALIGNMENT = 64
"""Tensors start on a cache line; those with larger elements come first, so all are aligned."""

MANIFEST = "manifest.json"
BEGIN = "begin.json"
REFUSED = "refused.txt"
"""Left by a rank that could not believe the checkpoint: the reason."""


class Spec(msgspec.Struct, frozen=True):
    """Type (safetensors' name for it) and shape of one tensor."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        return ITEM_BYTES[self.dtype] * prod(self.shape)


class Shard(msgspec.Struct, frozen=True):
    """Where a rank's tensor lies in the whole tensor of that name.

    `replicas`: the axes along which other ranks hold the same bytes; one of them writes. `ranks`:
    those that do, where they are known by themselves, as of a DTensor.
    """

    global_shape: tuple[int, ...]
    offsets: tuple[int, ...]
    replicas: tuple[Axis, ...] = ()
    ranks: tuple[int, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether other ranks hold the same bytes."""
        return bool(self.replicas or self.ranks)


class ShardPlan(msgspec.Struct, frozen=True):
    """What an agent must know of a slot's tensors: declared places, and who writes which.

    `elsewhere`: name -> the rank that writes it, for those that this rank does not.
    """

    shards: dict[str, Shard] = {}
    elsewhere: dict[str, int] = {}


PLAN_KEY = "holdfast"
"""Where a slot's header has its `ShardPlan`, as JSON, among the metadata."""


class Placed(msgspec.Struct, frozen=True):
    """A tensor's type and shape, and its bytes [begin, end) counted from the file's start."""

    spec: Spec
    begin: int
    end: int


class Layout(msgspec.Struct, frozen=True):
    """A whole file: its first bytes (length and header), its tensors, its size."""

    head: bytes
    tensors: dict[str, Placed]
    metadata: dict[str, str]
    size_bytes: int


def lay_out(
    tensors: Mapping[str, Spec], metadata: Mapping[str, str], *, in_order: bool = False
) -> Layout:
    """The layout of a file with these tensors; the same for the same input.

    `in_order`: as they are given, with larger elements first, as a slot has them.
    """
    names = list(tensors)
    if not in_order:
        names.sort(key=lambda name: (-ITEM_BYTES[tensors[name].dtype], name))
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for name in names:
        spec = tensors[name]
        end = at + spec.size_bytes
        header[name] = {"dtype": spec.dtype, "shape": spec.shape, "data_offsets": (at, end)}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return parse_head(struct.pack("<Q", len(text)) + text)


def parse_head(data: bytes | bytearray | memoryview) -> Layout:
    """The layout that a file's first bytes tell. Raises `ValueError` saying what is wrong."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        head = bytes(data[: 8 + length])
        if len(head) != 8 + length:
            raise ValueError(f"the header says {length} bytes, the file has {len(data) - 8}")
        header: dict[str, dict[str, list[int]]] = json.loads(head[8:])
    except (struct.error, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"not a safetensors header: {error}") from error
    metadata: dict[str, str] = header.pop("__metadata__", {})  # type: ignore[assignment]
    placed = {name: _placed(entry, len(head)) for name, entry in header.items()}
    end = max((tensor.end for tensor in placed.values()), default=len(head))
    return Layout(head, placed, metadata, end)


def _placed(entry: dict[str, list[int]], start: int) -> Placed:
    begin, end = entry["data_offsets"]
    spec = Spec(str(entry["dtype"]), tuple(entry["shape"]))
    if end - begin != spec.size_bytes:
        raise ValueError(f"{end - begin} bytes for a tensor of {spec.size_bytes}")
    return Placed(spec, start + begin, start + end)


# ---------------------------------------------------------------- names in the store


def folder_name(step: int, epoch: int) -> str:
    """One flat folder a checkpoint and epoch."""
    return f"step-{step:08d}-epoch-{epoch}"


def parse_folder(name: str) -> tuple[int, int] | None:
    """(step, epoch) of a checkpoint's folder, or None for what is not ours."""
    found = re.fullmatch(r"step-(\d{8,})-epoch-(\d+)", name)
    return (int(found[1]), int(found[2])) if found else None


def shard_name(rank: int, world_size: int) -> str:
    return f"shard-{rank:05d}-of-{world_size:05d}.safetensors"


def part_name(rank: int) -> str:
    return f"part-{rank:05d}.json"


def lost_name(rank: int) -> str:
    """Says that this rank no longer has the step: the checkpoint will never be whole."""
    return f"lost-{rank:05d}.txt"


def is_passing(name: str) -> bool:
    """Whether the file serves only until its checkpoint is whole."""
    return name == BEGIN or re.fullmatch(r"(part-\d+\.json|lost-\d+\.txt)", name) is not None


def fence_name(epoch: int) -> str:
    """Says that this epoch has begun: no older one may commit or delete any more."""
    return f"fence-epoch-{epoch}"


def parse_fence(name: str) -> int | None:
    found = re.fullmatch(r"fence-epoch-(\d+)", name)
    return int(found[1]) if found else None


def token_name(rank: int) -> str:
    """Left at the start of an attempt by the node whose first rank this is: its epoch. One a node,
    written over at the next."""
    return f"nodes/rank-{rank:05d}"


def key_in_store(name: str, rank: int, *, declared: bool) -> str:
    """What a tensor is called in its shard.

    A declared shard keeps its name, for readers put the pieces together by it. Another rank's
    undeclared tensor of the same name may differ, so only rank 0's keeps it.
    """
    return name if declared or rank == 0 else f"rank-{rank:05d}.{name}"


def as_in_slot(specs: Mapping[str, Spec], rank: int) -> dict[str, Spec]:
    """What is in a rank's shard, in the order in which its slot had it, and so it is written."""
    own = f"rank-{rank:05d}."
    return dict(
        sorted(
            specs.items(),
            key=lambda each: (-ITEM_BYTES[each[1].dtype], each[0].removeprefix(own)),
        )
    )
