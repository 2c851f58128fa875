"""What NCCL's RAS tells, in few words: who is gone, who met an error, who is behind. Pure.

Used by the sampler of NCCL. The JSON is a dump of every rank of every communicator; a heartbeat has
room for those that stand out. Must not conclude who is to blame.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

import msgspec

from holdfast.daemon.samplers.ras import Unreadable
from holdfast.protocol.messages import Nccl, NcclRank

TOLD = 8
"""Ranks of one answer."""
GRAVEST = ("dead", "silent", "failed", "left", "behind")
"""What a rank is told for, of several things the first."""
WELL = (0, 7)
"""Of ncclResult_t: success, and in progress."""

Word = Annotated[str, msgspec.Meta(max_length=64)]
Number = Annotated[int, msgspec.Meta(ge=-1, lt=1 << 62)]

_NO_COMMA = re.compile(rb'("nvml_dev": -?\d+)(\s+"status")')
"""NCCL 2.28.7 and 2.28.9 leave it out, of ranks that are missing alone."""


class _Status(msgspec.Struct, frozen=True):
    init_state: Number = 0
    async_error: Number = 0
    unresponsive: bool = False
    considered_dead: bool = False


class _Rank(msgspec.Struct, frozen=True):
    """Of those that are missing NCCL tells no counts, of the others not whether they answer."""

    rank: Number
    host: Word
    pid: Number
    status: _Status
    collective_counts: dict[Word, Number] = {}


class _Communicator(msgspec.Struct, frozen=True):
    hash: Word
    size: Number
    ranks: tuple[_Rank, ...]
    missing_ranks: tuple[_Rank, ...]

    @property
    def members(self) -> tuple[_Rank, ...]:
        return (*self.ranks, *self.missing_ranks)


class Answer(msgspec.Struct, frozen=True):
    """As much of it as is read."""

    nccl_version: Word
    communicators: tuple[_Communicator, ...]


def read(data: bytes) -> Answer:
    """Raises `Unreadable`."""
    try:
        return msgspec.json.decode(_NO_COMMA.sub(rb"\1,\2", data), type=Answer)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Unreadable(f"{len(data)} bytes that are no answer of RAS: {error}") from error


def told(answer: Answer, job: str, epoch: int, pids: Mapping[int, int]) -> Nccl:
    """In few words; `pids` are this node's processes of the job, with their ranks.

    Raises `Unreadable` where it is an answer of other processes.
    """
    communicators = answer.communicators
    if communicators and not any(each.pid in pids for c in communicators for each in c.members):
        raise Unreadable("it answers for processes that are none of this node's ranks")
    world = _world(communicators, pids)
    named = {} if world is None else {(m.host, m.pid): m.rank for m in world.members}
    ranks = _once(each for c in communicators for each in _standing_out(c))
    shown = [_named(each, named) for each in ranks[:TOLD]]
    return Nccl(
        job=job,
        epoch=epoch,
        version=answer.nccl_version,
        communicators=len(communicators),
        world=0 if world is None else world.size,
        ranks=tuple(shown),
        more=len(ranks) - len(shown),
    )


def _world(communicators: Iterable[_Communicator], pids: Mapping[int, int]) -> _Communicator | None:
    """The largest in which each process of this node has the rank that it has in the job."""
    fits = [
        c
        for c in communicators
        if pids.items() <= {(member.pid, member.rank) for member in c.members}
    ]
    return max(fits, key=lambda c: c.size, default=None)


def _named(seen: NcclRank, named: Mapping[tuple[str, int], int]) -> NcclRank:
    return msgspec.structs.replace(seen, rank=named.get((seen.host, seen.pid)))


def _once(seen: Iterable[NcclRank]) -> list[NcclRank]:
    """Each process for the gravest thing, of the largest communicator."""
    first: dict[tuple[str, int], NcclRank] = {}
    for each in sorted(seen, key=lambda each: (GRAVEST.index(each.what), -each.size)):
        first.setdefault((each.host, each.pid), each)
    return list(first.values())


def _standing_out(c: _Communicator) -> Iterator[NcclRank]:
    for lost in c.missing_ranks:
        yield _rank(_manner(lost.status), lost, c)
    for seen in c.ranks:
        error = next((e for e in _errors(seen.status) if e not in WELL), None)
        if error is not None:
            yield msgspec.structs.replace(_rank("failed", seen, c), error=error)
    for operation in sorted({name for seen in c.ranks for name in seen.collective_counts}):
        yield from _behind(c, operation)


def _manner(status: _Status) -> str:
    if status.considered_dead:
        return "dead"
    return "silent" if status.unresponsive else "left"


def _errors(status: _Status) -> tuple[int, int]:
    return status.async_error, status.init_state


def _behind(c: _Communicator, operation: str) -> Iterator[NcclRank]:
    """At most half of them: where most are behind one, that one has called what no other has."""
    counts = [(seen, seen.collective_counts.get(operation, 0)) for seen in c.ranks]
    furthest = max(count for _, count in counts)
    behind = [(seen, count) for seen, count in counts if count < furthest]
    if 2 * len(behind) > len(counts):
        return
    for seen, count in behind:
        yield msgspec.structs.replace(
            _rank("behind", seen, c),
            operation=operation,
            launched=count,
            furthest=furthest,
            furthest_ranks=sum(1 for _, other in counts if other == furthest),
        )


def _rank(what: str, seen: _Rank, c: _Communicator) -> NcclRank:
    return NcclRank(what=what, host=seen.host, pid=seen.pid, communicator=c.hash, size=c.size)
