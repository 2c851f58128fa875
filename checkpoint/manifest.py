"""The manifest that makes a folder of shards a checkpoint, and the parts it is made of. Pure.

Written by agents, read by agents and ranks. Both kinds of file are JSON around a checksum of their
content, so that a torn or altered one is refused. Must not trust what it has not checked.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.checkpoint import checked, coverage
from holdfast.checkpoint.coverage import Place
from holdfast.checkpoint.replicas import Group, differing
from holdfast.protocol.topology import Axis, Topology

T = TypeVar("T")

FORMAT = 1


class BadManifest(ValueError):
    """A part or manifest that cannot be believed; the message says why."""


class ReplicasDiffer(BadManifest):
    """What ranks declared the same is not; `groups` says of which and what."""

    def __init__(self, why: str, groups: list[Group]) -> None:
        super().__init__(why)
        self.groups = groups


class File(msgspec.Struct, frozen=True, omit_defaults=True):
    """A shard: its name in the folder, its size, and XXH3 (64 bit) of its bytes in hexadecimal.

    `blocks`: the same of each `block_bytes` of it, so that ranges of it can be believed. Shards of
    an earlier Holdfast have none.
    """

    name: str
    size_bytes: int
    xxh3: str
    block_bytes: int = 0
    blocks: tuple[str, ...] = ()


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one rank contributed to a checkpoint."""

    rank: int
    step: int
    epoch: int
    world_size: int
    topology: Topology = Topology()
    shard: File | None = None  # None: all its tensors are written by replicas
    tree: msgspec.Raw = msgspec.Raw(b"null")  # the state's structure, with all but its tensors
    elsewhere: dict[str, int] = {}  # tensors that a replica wrote: name -> its rank
    places: dict[str, Place] = {}  # of what it wrote and had declared, in the whole tensors
    replicas: dict[str, str] = {}  # of what others hold, too: name -> XXH3; not in the manifest


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A whole checkpoint. `parts` are in rank order, one a rank."""

    format: int = FORMAT
    job: str
    step: int
    epoch: int
    world_size: int
    topology: Topology = Topology()
    parts: tuple[Part, ...]


_PART = msgspec.json.Decoder(Part)
_MANIFEST = msgspec.json.Decoder(Manifest)


def encode(content: Part | Manifest) -> bytes:
    """The file's bytes: `{"xxh3": …, "content": …}`."""
    return checked.encode(content) + b"\n"


def decode_part(data: bytes) -> Part:
    """Raises `BadManifest`."""
    return _decode(data, _PART)


def decode_manifest(data: bytes, *, step: int, epoch: int) -> Manifest:
    """The manifest of the checkpoint (step, epoch). Raises `BadManifest`."""
    manifest = _decode(data, _MANIFEST)
    if manifest.format != FORMAT:
        raise BadManifest(f"format {manifest.format}, this Holdfast reads {FORMAT}")
    if (manifest.step, manifest.epoch) != (step, epoch):
        raise BadManifest(f"it is of step {manifest.step}, order {manifest.epoch}")
    _check(manifest.parts, step=step, epoch=epoch, world_size=manifest.world_size)
    _check_places(manifest.parts, manifest.topology)
    return manifest


def merge(job: str, parts: Iterable[Part]) -> Manifest:
    """The manifest of these parts. Raises `BadManifest` unless they are one whole checkpoint."""
    ordered = tuple(sorted(parts, key=lambda part: part.rank))
    if not ordered:
        raise BadManifest("it has no parts")
    first = ordered[0]
    _check(ordered, step=first.step, epoch=first.epoch, world_size=first.world_size)
    _check_replicas(ordered)
    _check_places(ordered, first.topology)
    return Manifest(
        job=job,
        step=first.step,
        epoch=first.epoch,
        world_size=first.world_size,
        topology=first.topology,
        parts=tuple(replace(part, replicas={}) for part in ordered),
    )


def _check(parts: tuple[Part, ...], *, step: int, epoch: int, world_size: int) -> None:
    if [part.rank for part in parts] != list(range(world_size)):
        have = ", ".join(str(part.rank) for part in parts)
        raise BadManifest(f"it has parts of ranks {have}, its world is {world_size}")
    for part in parts:
        if (part.step, part.epoch, part.world_size) != (step, epoch, world_size):
            raise BadManifest(
                f"rank {part.rank}'s part is of step {part.step}, order {part.epoch}, world "
                f"{part.world_size}; the others are of step {step}, order {epoch}, {world_size}"
            )
        writers = {*part.elsewhere.values(), *((part.rank,) if part.shard else ())}
        absent = [rank for rank in writers if rank >= world_size or not parts[rank].shard]
        if absent:
            raise BadManifest(f"rank {part.rank} needs a shard of rank {absent[0]}: there is none")


def _check_places(parts: tuple[Part, ...], topology: Topology) -> None:
    """What ranks declared to be shards of one tensor has to be the whole of it.

    Of all stages of a pipeline together, or of each alone: layers may have the same names in each.
    """
    shards: dict[str, dict[int, Place]] = {}
    for part in parts:
        for name, place in part.places.items():
            shards.setdefault(name, {})[part.rank] = place

    def told(rank: int) -> str:
        file = parts[rank].shard
        return f"rank {rank} in {file.name if file else 'no file'}"

    for name, places in shards.items():
        why = coverage.wrong(name, places, told)
        if why and not _each_whole(name, places, topology):
            raise BadManifest(f"{why}. Correct `shards` in the script")


def _by_stage(places: Mapping[int, Place], topology: Topology) -> dict[int, dict[int, Place]]:
    stages: dict[int, dict[int, Place]] = {}
    for rank, place in places.items():
        known = rank < topology.world_size
        stage = topology.coordinates(rank)[Axis.PP] if known else 0
        stages.setdefault(stage, {})[rank] = place
    return stages


def _each_whole(name: str, places: Mapping[int, Place], topology: Topology) -> bool:
    stages = _by_stage(places, topology).values()
    return not any(coverage.wrong(name, each) for each in stages)


def apart(manifest: Manifest) -> set[str]:
    """Names of which each stage of a pipeline has a tensor of its own."""
    shards: dict[str, dict[int, Place]] = {}
    for part in manifest.parts:
        for name, place in part.places.items():
            shards.setdefault(name, {})[part.rank] = place
    topology = manifest.topology
    return {
        name
        for name, places in shards.items()
        if len(_by_stage(places, topology)) > 1 and _each_whole(name, places, topology)
    }


def _check_replicas(parts: tuple[Part, ...]) -> None:
    """What one rank writes for others has to be what they have, or a mixture comes back.

    Raises `ReplicasDiffer`.
    """
    if groups := differing(parts):
        [(writer, held), *others] = groups[0].digests.items()
        rank = next(rank for rank, digest in others if digest != held)
        tensors = {group.tensor for group in groups}
        more = f" ({len(tensors)} tensors differ)" if len(tensors) > 1 else ""
        raise ReplicasDiffer(
            f"{groups[0].tensor!r} is declared the same on ranks {writer} and {rank}, and is not"
            f"{more}. Leave it out of `replicated`, or of the replicas in `shards`",
            groups,
        )


def _decode(data: bytes, words: msgspec.json.Decoder[T]) -> T:
    try:
        return checked.decode(data, words)
    except checked.Altered as error:
        raise BadManifest(str(error)) from error
