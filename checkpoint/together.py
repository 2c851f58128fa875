"""Ranks that restore together: what a group shares is read by one of them, who tells the others.

Used where `torch.distributed` is there and has all ranks; else each reads for itself. The ranks
meet on gloo, in the hosts' memory. Every rank has to call it, and before the reading ends none goes
on: a rank that fails ends, and then the others hear of it.
"""

from collections.abc import Mapping
from typing import Any

import torch
import xxhash
from torch import distributed

from holdfast.checkpoint.fetch import Pieces, Refused, pieces, read_shard
from holdfast.checkpoint.layout import parse_head
from holdfast.checkpoint.manifest import Manifest
from holdfast.checkpoint.stores import Store, StoreError


class ElsewhereRefused(Refused):
    """Another rank cannot believe the checkpoint, and says why."""


def meets(world_size: int) -> bool:
    """Whether all ranks can talk to each other."""
    there = distributed.is_available() and distributed.is_initialized()
    return there and distributed.get_world_size() == world_size


class Company:
    """All ranks, who tell each other numbers. Making it is a meeting, too."""

    def __init__(self, world_size: int) -> None:
        self._alone = world_size == 1
        self._group: Any = None if self._alone else distributed.new_group(backend="gloo")

    def hear(self, *numbers: int) -> list[int]:
        """What rank 0 said."""
        told = torch.tensor(numbers, dtype=torch.int64)
        if not self._alone:
            distributed.broadcast(told, 0, group=self._group)
        return [int(number) for number in told]

    def agree(self, well: bool) -> bool:
        """Whether all is well with all."""
        told = torch.tensor([int(well)])
        if not self._alone:
            distributed.all_reduce(told, distributed.ReduceOp.MIN, group=self._group)
        return bool(told)

    def close(self) -> None:
        if not self._alone:
            distributed.destroy_process_group(self._group)


def read(store: Store, folder: str, manifest: Manifest, rank: int) -> Pieces:
    """All that `rank` needs of the checkpoint. Raises `Refused` or `StoreError`."""
    groups = _groups(manifest)
    if not groups or not meets(manifest.world_size):
        return pieces(store, folder, manifest, rank)
    company = Company(manifest.world_size)
    try:
        own = _own(store, folder, manifest, rank, company)
        shards = {} if own is None else {rank: own}
        shards |= _shared(manifest, rank, groups, own)
        _check_told(folder, manifest, rank, shards, company)
    finally:
        company.close()
    part = manifest.parts[rank]
    heads = {writer: (data, parse_head(data)) for writer, data in shards.items()}
    return Pieces(rank, bytes(part.tree), part.elsewhere, heads)


def _groups(manifest: Manifest) -> dict[int, tuple[int, ...]]:
    """Of each rank that has written for others, itself and these."""
    members: dict[int, set[int]] = {}
    for part in manifest.parts:
        for writer in part.elsewhere.values():
            members.setdefault(writer, {writer}).add(part.rank)
    return {writer: tuple(sorted(ranks)) for writer, ranks in sorted(members.items())}


def _own(
    store: Store, folder: str, manifest: Manifest, rank: int, company: Company
) -> bytearray | None:
    """What this rank itself had written; all have theirs, or each raises."""
    file, error = manifest.parts[rank].shard, None
    data = None if file is None else bytearray(file.size_bytes)
    try:
        if file is not None:
            read_shard(store, folder, file, into=data)
    except (Refused, StoreError) as reason:
        error = reason
    if not company.agree(error is None):
        raise error or ElsewhereRefused(f"{folder}: another rank cannot read its shard")
    return data


def _check_told(
    folder: str, manifest: Manifest, rank: int, shards: Mapping[int, bytearray], company: Company
) -> None:
    """What came from other ranks is what they have read, for all, or each raises."""
    wrong = ""
    for writer, data in shards.items():
        file = manifest.parts[writer].shard
        if writer != rank and file and xxhash.xxh3_64_hexdigest(data) != file.xxh3:
            wrong = f"{folder}/{file.name}: what rank {writer} told of it has another checksum"
    if not company.agree(not wrong):
        why = f"{folder}: another rank was told other bytes than were read"
        raise Refused(wrong) if wrong else ElsewhereRefused(why)


def _shared(
    manifest: Manifest, rank: int, groups: dict[int, tuple[int, ...]], own: bytearray | None
) -> dict[int, bytearray]:
    """The shards of all that have written for this rank, from those that have read them."""
    found, made = {}, dict[tuple[int, ...], Any]()
    for writer, members in groups.items():
        file = manifest.parts[writer].shard
        if rank not in members or file is None:
            continue
        if members not in made:
            made[members] = distributed.new_group(
                list(members), backend="gloo", use_local_synchronization=True
            )
        data = own if writer == rank and own is not None else bytearray(file.size_bytes)
        distributed.broadcast(
            torch.frombuffer(data, dtype=torch.uint8), writer, group=made[members]
        )
        found[writer] = data
    for group in made.values():
        distributed.destroy_process_group(group)
    return found
