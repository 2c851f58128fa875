"""What an executor and its checkpoint agent say to each other: JSON lines on the agent's pipes.

Written by the executor (orders, on the agent's stdin) and by `checkpoint.agent` (reports, on its
stdout). Pure. An order is whole: it replaces the one before it. The agent ends when stdin closes.
"""

import msgspec

from holdfast.protocol.messages import Peer, Snapshot, Stored, Unlike, UploadLimits


class AgentOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the agent should be doing. Every order is answered by reports that carry its `id`.

    `slots` names each rank whose slots are in this node's memory, also while no rank runs; those of
    `ranks` have their seat here in this epoch. Nothing of an older epoch is written to the store
    once an order names a newer one.
    """

    id: int  # rises by one with each order
    job: str
    epoch: int
    ranks: tuple[int, ...] = ()
    world_size: int = 1
    slots: dict[int, str] = {}  # rank -> folder (protocol.paths.NodePaths.slots)
    store_url: str = ""  # "" writes nothing
    begin_from: str = ""  # what an earlier job left, to be looked up, too
    store_interval_steps: int = 0  # 0 writes nothing
    retention: int = 2  # whole checkpoints kept in the store
    keep_every_steps: int = 0  # beyond those, each whose step is a multiple; 0: none
    upload: UploadLimits = UploadLimits()
    peer_interval_steps: int = 0  # between copies in another node's memory; 0: none, nor taken
    peer: Peer | None = None  # where they go
    slots_root: str = ""  # where all folders of `slots` are
    save: Stored | None = None  # write this snapshot, due or not, then look the store up again
    look_up_store: bool = False  # list the whole checkpoints, by manifest and sizes
    forget_job: str | None = None  # drop that job's slots, once what is due is in the store


class AgentReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that the agent knows, sent when it changes. `snapshots` have their checksum.

    `stored` is what was found for order `id` so far; only once `looked` there is no other. Where
    the store cannot be read `store_error` says why, and it is tried again.
    """

    id: int
    job: str
    epoch: int
    snapshots: tuple[Snapshot, ...] = ()
    stored: tuple[Stored, ...] = ()
    damaged: tuple[Stored, ...] = ()  # there, and not to be believed
    looked: bool = False
    persisted_step: int | None = None  # newest of this epoch written (rank 0's node: committed)
    skipped_saves: int = 0  # snapshots and uploads refused so far in this epoch
    skipped_why: str = ""  # why the last one was
    skipped_in_a_row: int = 0  # snapshots that a rank refused since the last it made; the worst one
    unlike: Unlike | None = None  # ranks that hold no longer alike what they declared so
    store_error: str = ""
    saved_bytes: int = 0  # of a snapshot that was ordered, what this node has in the store so far
    store_shared: bool | None = None  # what the neighbour's node wrote is seen here; None: unknown
    store_missing: str = ""  # what of it is not
    undeleted: str = ""  # why the store does not let go of old checkpoints, and what to do
    swept: bool = False  # the last time it was to, it did
    peer_port: int = 0  # where copies of other nodes' snapshots are taken; 0: they are not
    notes: tuple[str, ...] = ()  # what was refused and why, newest last; at most 20


def line(message: AgentOrder | AgentReport) -> bytes:
    """The message as one line, newline included."""
    return msgspec.json.encode(message) + b"\n"


def order(text: bytes) -> AgentOrder:
    """The order in a line. Raises `msgspec.DecodeError` saying what is wrong with it."""
    return msgspec.json.decode(text, type=AgentOrder)


def report(text: bytes) -> AgentReport:
    """The report in a line. Raises `msgspec.DecodeError` saying what is wrong with it."""
    return msgspec.json.decode(text, type=AgentReport)
