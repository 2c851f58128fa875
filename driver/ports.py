"""What the driver needs of the outside: three small protocols, each with one contract test.

`Journal` remembers, `Cluster` has the nodes, `Nodes` talks to their processes. Adapters own the
exceptions of their technologies and raise only what is named here.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from holdfast.driver.core.effects import AnyEffect
from holdfast.driver.core.events import AnyEvent
from holdfast.driver.noted import Doing, Turned
from holdfast.kit.errors import PermanentError as PermanentError
from holdfast.kit.errors import TemporaryError as TemporaryError
from holdfast.protocol.messages import Desired, Hello, Observed


class InDoubt(TemporaryError):
    """A commit was sent and its answer was lost: only the very same commit again can tell."""


class TakenOver(PermanentError):
    """Another driver leads, with a later term; this one may not write any more."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver begins with: its term, and what the one before left (`state` encoded)."""

    term: int
    state: bytes | None
    sequence: int
    now: float


@dataclass(frozen=True)
class Pair:
    """A certificate, with those that vouch for it, and its key: PEM. The key is shown nowhere."""

    certificate: str
    key: str = field(repr=False)


class UnfitError(TemporaryError):
    """The job cannot have this node now for a reason of the job's own: others may.

    `late`: that was found out by waiting for as long as one may. `others`: why it cannot have these
    nodes either, as far as that is known without a try.
    """

    def __init__(
        self, why: str, *, late: bool = False, others: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(why)
        self.late = late
        self.others = dict(others or {})


class BarredError(UnfitError):
    """Nor can it have any other node now, for the same reason."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One journal entry: what happened, what was decided, and why. `at` is for people only."""

    sequence: int
    term: int
    now: float
    at: str
    policy: int
    event: AnyEvent
    effects: tuple[AnyEffect, ...]
    why: str
    jobs: tuple[str, ...] = ()  # whose story this belongs to
    nodes: tuple[str, ...] = ()
    incident: int | None = None
    doing: dict[str, Doing] = {}  # what jobs do from now on, where that is not what they did
    turned: tuple[Turned, ...] = ()  # what people want to be told of
    restates: bool = False  # its event, and no more: stories do without it


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A node as the cluster has it. `present` is False once its lease is over.

    `closed` says why it is to get no new work, "" where it may; what runs there runs on. `notice`
    says why it is to be free, "" where it need not be; `within_s`: from now, None: at leisure.
    `problem`: what others found wrong with it; `conclusive`: it needs no test of ours. `machine`
    tells it from another that had the same name, "" where the cluster cannot.
    """

    node: str
    rack: str = ""
    machine: str = ""
    present: bool = True
    distrusted: bool = False
    closed: str = ""
    notice: str = ""
    within_s: float | None = None
    problem: str = ""
    conclusive: bool = False
    why: str = ""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster is going to end an executor of a job; until then, and no longer, it works.

    Once it is released it goes at once. `evicted`: it is wanted off this node.
    """

    job: str
    node: str
    why: str
    within_s: float
    evicted: bool = False


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster ended an executor that it was to run, and that nobody released."""

    job: str
    node: str
    why: str


class Starved(msgspec.Struct, frozen=True, kw_only=True):
    """An executor of a job was killed for memory, its ranks with it; it is started again in place.

    `limit_bytes`: of all that runs there; 0 where it has none.
    """

    job: str
    node: str
    limit_bytes: int = 0


class Lingering(msgspec.Struct, frozen=True, kw_only=True):
    """An executor that was to end on a node that is away, which never confirms it; or a `stray`
    one, by which nobody holds its node.
    """

    job: str
    node: str
    why: str
    stray: bool = False


class Fits(msgspec.Struct, frozen=True, kw_only=True):
    """A node that was refused to a job for want of room has room for it. Told once a refusal."""

    job: str
    node: str


AnyFact = Fact | Ending | Ended | Lingering | Starved | Fits
"""What a cluster tells of its nodes, and of the executors there."""


class Figure(msgspec.Struct, frozen=True):
    """What Prometheus is told by an adapter: a value by each word of the label `by`, or one."""

    name: str
    help: str
    values: Mapping[str, float]
    by: str = ""
    counts: bool = False  # it only grows while the driver lives


class Key(msgspec.Struct, frozen=True):
    """An Idempotency-Key of a request, and the digest of that request."""

    key: str
    digest: bytes


class Claim(msgspec.Struct, frozen=True):
    """A key that was used: for which request, and the entry that this became."""

    key: Key
    sequence: int


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The last lines of a rank on a node that its job has left. `number` is the job's."""

    job: str
    rank: int
    number: int
    attempt: int
    stdout: bytes
    stderr: bytes


class LastLinesStore(Protocol):
    """Keeps last lines for people, one set a rank: of the newest attempt that was told."""

    async def keep(self, told: Sequence[Kept], *, jobs: Collection[str]) -> None:
        """Make them durable, while the term is ours; forget those of jobs that are not in `jobs`.

        Raises `TemporaryError`, `PermanentError` with nothing changed.
        """
        ...

    def kept(self, job: str, rank: int) -> Kept | None:
        """What is kept of a rank. Raises `TemporaryError`."""
        ...


class PositionStore(Protocol):
    """How far whoever follows the journal has come, by name."""

    def position(self, name: str) -> int | None:
        """The sequence that was kept last; None: it never followed. Raises `TemporaryError`."""
        ...

    async def keep_position(self, name: str, sequence: int) -> None:
        """Make it durable, while the term is ours. Raises `TemporaryError`, `PermanentError`."""
        ...


class Pruned(NamedTuple):
    """What one look at old entries came to. `upto`: the last one seen; None: there are no more."""

    upto: int | None
    gone: int


class EntryStore(Protocol):
    """Lets entries go that are old, and of nothing that is there."""

    async def prune(
        self, *, after: int, keep: int, jobs: Collection[str], incidents: Collection[int]
    ) -> Pruned:
        """Look at the next entries behind `after` that are not among the newest `keep`, while the
        term is ours; those of none of these jobs and incidents go, with the keys of requests that
        led to them. Raises `TemporaryError`, `PermanentError` with nothing changed.
        """
        ...


NO_NEW_WORK = "no new work is accepted, running jobs go on"
"""What comes of a disk without room, as a driver says it to all that ask."""


class Journal(Protocol):
    """Remembers entries and the state that they led to. One writer: who took the newest term."""

    def take_over(self) -> Taken:
        """Take the next term. From now on whoever had an earlier one can write nothing more."""
        ...

    def check_term(self) -> None:
        """Raises `TakenOver` where the term is not ours any more, `TemporaryError` if unknown."""
        ...

    def pass_over(self, term: int) -> None:
        """End ours: `term`, no earlier one, was another driver's, of whom nothing is known here,
        for the journal was put back from a backup. Whoever takes over next has a later one. Raises
        `TakenOver`, or `TemporaryError` where nothing was done.
        """
        ...

    async def commit(
        self,
        entries: Sequence[Entry],
        state: bytes,
        *,
        change: bool = False,
        claims: Sequence[Claim] = (),
    ) -> None:
        """Make entries, state and claims durable in one transaction, while the term is ours.

        `change`: `state` is only what they changed of what was committed before.
        Raises `TemporaryError` (disk full: the reserve lets running jobs recover) or `TakenOver`,
        with nothing written; or `InDoubt`, after which only the same commit may be tried: it is
        done where it was done already.
        """
        ...

    def entries(
        self,
        *,
        after: int = 0,
        job: str | None = None,
        node: str | None = None,
        incident: int | None = None,
        turning: bool = False,
        telling: bool = False,
        limit: int = 1_000,
    ) -> list[Entry]:
        """Entries in order, filtered; for stories and replays. `turning`: those alone from which
        on a job did something else (`Entry.doing`); `telling`: without those of which a story has
        nothing (`Entry.restates`), and of effects with `Distrust` alone, which stories tell."""
        ...

    def claim(self, key: str) -> Claim | None:
        """The request that used this Idempotency-Key, if any did."""
        ...

    def shortage(self) -> str | None:
        """Why only running jobs may still write (no room), in a sentence; None if all is well."""
        ...


class Cluster(Protocol):
    """Where nodes come from. Local (keeper) and Kubernetes."""

    def facts(self) -> AsyncIterator[AnyFact]:
        """Every node once, then each change, without end; survives a lost connection."""
        ...

    async def allocate(self, job: str, node: str) -> None:
        """Have an executor run there for `job`; returns once it is ordered, not once it is up.

        Raises `UnfitError` where another job may have the node (`BarredError`: and where this job
        would get no other node either), else an error about the node.
        """
        ...

    async def requalify(self, node: str, *, number: int, job: str, spec: bytes) -> None:
        """Have an executor run on a distrusted node, of which nothing is wanted but tests.

        It gets what an executor of `job` would, whose whole spec (JSON) is `spec`, and goes with
        `release`. `number` is another one each time; the same again is no second executor.
        Raises an error about the node where it cannot be tried now.
        """
        ...

    def give_up(self, node: str) -> None:
        """The node is going to be released: an `allocate` of it that waits may end at once."""
        ...

    async def release(self, node: str) -> None:
        """Give the node back; no error if it was not held. One that is away is not asked."""
        ...

    async def distrust(self, node: str, *, incident: int, reason: str) -> None:
        """Keep everybody's new work off the node, and say why."""
        ...

    async def trust(self, node: str) -> None:
        """Take the mark of `distrust` away; no error if there is none."""
        ...


class Nodes(Protocol):
    """The connections to executors."""

    def instruct(self, desired: Desired) -> None:
        """Keep as the node's desired state and send it, now and at each reconnect."""
        ...

    def hello(self, node: str) -> Hello | None:
        """What the node's executor said of itself; None while it is not connected."""
        ...

    def observed(self, node: str) -> Observed | None:
        """The newest that the node's executor reported; None before its first report."""
        ...

    async def stacks(
        self, node: str, job: str, ranks: Sequence[int], limit_s: float
    ) -> dict[int, str]:
        """Stacks by rank. Raises `TemporaryError` where the node does not answer in time."""
        ...

    async def burst(self, node: str, seconds: float, limit_s: float) -> bytes:
        """What the node's rails moved each millisecond (`traces.bursts.record`).

        Raises `TemporaryError` where there is none in time, `PermanentError` where the node is of a
        version that takes none.
        """
        ...

    async def log(
        self, node: str, job: str, *, attempt: int, rank: int, stream: str, offset: int
    ) -> tuple[bytes, int]:
        """A piece of a rank's log and the offset to go on from.

        Raises `TemporaryError` where the node does not answer in time, `PermanentError` where it
        has no such log.
        """
        ...
