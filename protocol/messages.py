"""Messages between the driver and a node's two processes: msgpack maps, one WebSocket each.

The executor gets the *whole desired state* of its node, never a command; it answers with the whole
of what it observes. The daemon sends heartbeats. Keyed maps let neighbouring versions talk; a field
is added with a default, never renamed. `Hello` comes first and carries the protocol version.
"""

from typing import NamedTuple

import msgspec

from holdfast.protocol.topology import Topology


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True, gc=False):
    """Base of all messages; the class name is the tag."""


# ---------------------------------------------------------------- both processes of a node


class Hardware(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node says it has."""

    cpus: int = 1
    memory_bytes: int = 0
    gpus: int = 0
    gpu_model: str = ""
    nics: tuple[str, ...] = ()


class Hello(Message, frozen=True):
    """First message on a connection. `incarnation` is new for each start of the process."""

    protocol: int
    process: str  # "executor" or "daemon"
    node: str
    incarnation: str
    address: str = "127.0.0.1"  # where other nodes reach this one
    hardware: Hardware = Hardware()
    generation: int = 0  # highest desired state accepted (executor)
    epoch: int = 0
    term: int = 0
    bursts: bool = False  # it takes bursts (daemon): one of an earlier version is not asked


class Welcome(Message, frozen=True):
    """The driver's answer to `Hello`."""

    term: int
    heartbeat_period_s: float = 1.0
    keeps_bytes: int = 0  # of a job's `LastLines`, all its ranks together (`protocol.lastlines`)


class Refused(Message, frozen=True):
    """The one error message, both ways: what was refused, why, and what to do about it."""

    what: str
    why: str
    fix: str = ""
    generation: int | None = None


# ---------------------------------------------------------------- driver to executor


class UploadLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What writing checkpoints to the store may take of a node, all its ranks together."""

    mb_per_s: float = 0.0  # 0: as fast as it goes
    cpus: float = 0.0  # of one core, e.g. 0.25; 0: as much as it takes
    idle: bool = False  # only CPU and disk that nobody else wants


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a rank of the job runs, the same on every node."""

    command: tuple[str, ...]
    workdir: str
    env: dict[str, str] = {}
    default_env: dict[str, str] = {}  # what neither `env` nor the node's own environment sets
    topology: Topology = Topology()
    nodes: int = 1
    ranks_per_node: int = 1
    max_restarts: int = 0
    memory_interval_steps: int = 0  # 0: no snapshots but what the script does itself
    store_interval_steps: int = 0
    store_url: str = ""
    rendezvous: str = ""  # URL of a Redis where ranks meet; "": at the rendezvous of the attempt
    begin_from: str = ""  # the life of an earlier job, or a checkpoint in it, to go on from
    retention: int = 2  # whole checkpoints kept in the store
    keep_every_steps: int = 0  # beyond those, each whose step is a multiple; 0: none
    upload: UploadLimits = UploadLimits()
    peer_interval_steps: int = 0  # between copies in another node's memory; 0: none
    grace_s: float = 30.0
    log_root: str = ""  # RunPaths.root as the node sees it
    log_rules: tuple[str, ...] = ()


class Seat(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A place in the rank table: which node and address has this rank."""

    rank: int
    local_rank: int
    node: str
    address: str


class Rendezvous(msgspec.Struct, frozen=True, kw_only=True):
    """Where the epoch's rendezvous listens."""

    address: str
    port: int


EARLIER = 0
"""For the epoch of what an earlier job wrote, to which `begin_from` leads: its own mean nothing
here, where epochs are counted from 1."""


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """Where a node's agent takes copies of other nodes' snapshots, and gives them."""

    address: str
    port: int


class Restore(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all ranks agreed to start from. `epoch` is the one that wrote it; see `EARLIER`."""

    source: str  # "memory" or "store"
    step: int
    epoch: int
    peers: dict[int, Peer] = {}  # of the node's ranks whose snapshot only another node has


class Stored(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A whole checkpoint (it has its manifest) in the job's store."""

    step: int
    epoch: int


class DiagnosticOrder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node's part in a diagnosis. `peers` are the members of its groups, in rank order."""

    id: str  # of the whole diagnosis
    test: str  # its name in the registry of tests
    round: int = 0
    members: tuple[str, ...] = ()  # node names, this one among them; empty for a test of one node
    rendezvous: Rendezvous | None = None  # for tests of several nodes
    listen_port: int | None = None  # where the first member serves the group's store
    time_box_s: float = 10.0
    size_bytes: int = 4_000_000
    repeats: int = 5


GRACEFUL = frozenset({"grace", "interrupt"})
"""Ways to end ranks that leave them time: by SIGTERM, and as Ctrl-C in a terminal does, by SIGINT
where they take no SIGTERM."""
STOPS = frozenset({"kill"}) | GRACEFUL


class Desired(Message, frozen=True):
    """All that a node should be doing for its job. Idempotent; the newest generation wins.

    No seats of its own: no rank may run. `host_rendezvous`: host the epoch's rendezvous and report
    its address. `rendezvous` is set whenever `seats` is. An executor refuses what has a (term,
    epoch) older than it has accepted.
    """

    node: str
    generation: int
    term: int
    epoch: int
    job: str | None = None  # None: the node is free, keep nothing but the warm launcher
    attempt: int = 0
    task: Task | None = None
    seats: tuple[
        Seat, ...
    ] = ()  # the epoch's rank table; sent: the node's own; empty: no rank runs
    world_size: int = 0  # seats of the whole table; these three are set when it is sent
    places: int = 0  # nodes of the whole table …
    place: int = 0  # … and which of them this one is, from 0
    host_rendezvous: bool = msgspec.field(default=False, name="host_store")
    rendezvous: Rendezvous | None = None
    restore: Restore | None = None
    peer: Peer | None = None  # where copies of its ranks' snapshots go
    stop: str = "kill"  # how to end ranks that should not be, one of STOPS
    diagnostics: tuple[DiagnosticOrder, ...] = ()
    because: str = ""  # what an attempt after the first is for, if a fault, in a sentence
    save: Stored | None = None  # write this snapshot, where memory here has it, to the store
    forget_job: str | None = None  # drop that job's snapshots from memory


class AskStacks(Message, frozen=True):
    """Take the stacks of these ranks now (py-spy --nonblocking); answered by `Stacks`."""

    id: str
    job: str
    ranks: tuple[int, ...]


class AskLog(Message, frozen=True):
    """Read a rank's log; `offset` < 0 counts from the end. Answered by `LogChunk`."""

    id: str
    job: str
    attempt: int
    rank: int
    stream: str  # "stdout" or "stderr"
    offset: int = 0
    max_bytes: int = 65_536


# ---------------------------------------------------------------- executor to driver


class RankError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a rank's error file says (torch elastic's format), or the end of its stderr."""

    message: str
    traceback: str = ""
    exception: str = ""  # class name, "" where it is not a Python exception
    in_collective: bool = False  # raised while talking to peers: likely an echo of their death
    stamp_s: float = 0.0
    not_startable: bool = False  # the executor's own word: the command was never run, and why


class RankStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One rank as its executor sees it. `state`: "starting", "running" or "exited"."""

    rank: int
    state: str
    pid: int = 0
    exit_code: int | None = None
    signal: int | None = None
    out_of_memory: bool = False
    memory_limit_bytes: int = 0  # of what it died of; 0: the node had no more, or nobody knows
    error: RankError | None = None
    order: int = 0  # order of exits on this node, 1 first
    step: int | None = None  # that it completed last, as it counts them; None: not known
    saved: int | None = None  # how many its script saved here; None: it numbers its steps itself
    all_step: int | None = None  # that all ranks of the node had completed then; None: not known
    sealed: bool = False  # snapshots of it are in this node's memory


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A sealed snapshot of one rank in this node's memory."""

    rank: int
    step: int
    epoch: int


class Unlike(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ranks that hold different bytes of a tensor that they declared to hold alike, and did."""

    step: int
    since: int  # the step at which all held the same
    tensor: str  # the first of those that differ
    tensors: int = 1  # how many do
    ranks: tuple[int, ...] = ()  # that hold it
    odd: int | None = None  # the only one that differs from all others; None: nobody can say


class DiagnosticResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one node measured. `ok` is None where the test could not be run to its end."""

    id: str
    test: str
    node: str
    round: int = 0
    members: tuple[str, ...] = ()
    ok: bool | None = None
    wrong: bool = False  # it was run to its end, and what came out is not what has to
    value: float | None = None
    unit: str = ""
    detail: str = ""


class Observed(Message, frozen=True):
    """All that an executor sees, sent when it changes. The newest `sequence` wins."""

    node: str
    incarnation: str
    sequence: int
    generation: int  # of the desired state that this describes
    epoch: int
    job: str | None = None
    attempt: int = 0
    ranks: tuple[RankStatus, ...] = ()
    quiet: bool = False  # no rank, child of a rank or rendezvous of an older epoch is left
    killed: tuple[int, ...] = ()  # ranks that this order was to end, and their grace did not
    rendezvous: Rendezvous | None = msgspec.field(default=None, name="store")  # once it listens
    meeting: str | None = None  # why the Redis where ranks meet is silent; "": it answers
    snapshots: tuple[Snapshot, ...] = ()
    peer_port: int = 0  # where its agent takes copies of other nodes' snapshots; 0: it does not
    stored: tuple[Stored, ...] = ()  # looked up when quiet, by the node of rank 0: found so far
    looking: str = ""  # why it is not known yet what else the store holds; "" where it is
    preparing: str = ""  # what its store of the epoch has to wait for; "" for nothing
    damaged: tuple[Stored, ...] = ()  # checkpoints that are there, and not to be believed
    store_error: str = ""  # why the store could not be read or written
    agent_silent: str = ""  # what the checkpoint agent was asked for, and has not answered in time
    saved_bytes: int = 0  # of the snapshot that `Desired.save` is of, in the store so far
    store_shared: bool | None = None  # it sees what its neighbour wrote there; None: unknown
    store_missing: str = ""  # what of it is not seen
    undeleted: str = ""  # why its store does not let go of old checkpoints, and what to do
    swept: bool = False  # the last time it was to, it did
    diagnostics: tuple[DiagnosticResult, ...] = ()
    launcher: str = "cold"  # "cold", "warming", "warm", or why there is none
    persisted_step: int | None = None  # newest step that this node wrote to the store
    skipped_saves: int = 0  # snapshots or uploads refused so far in this epoch
    skipped_why: str = ""  # why the last one was
    skipped_in_a_row: int = 0  # snapshots that a rank refused since the last it made; the worst one
    unlike: Unlike | None = None  # told by the node of rank 0, whose agent commits


class Stacks(Message, frozen=True):
    """Stacks by rank, as text; a rank that could not be sampled has the reason instead."""

    id: str
    stacks: dict[int, str]


class LogChunk(Message, frozen=True):
    """A piece of a rank's log. `end` is the offset to ask for next."""

    id: str
    data: bytes
    end: int
    missing: bool = False


class LastLines(Message, frozen=True):
    """What a rank wrote last, told once its job has left the node, whose folders go with it.

    At most `protocol.lastlines.share_bytes` of each file; told before the node is `quiet`.
    """

    job: str
    attempt: int
    rank: int
    stdout: bytes = b""
    stderr: bytes = b""


# ---------------------------------------------------------------- daemon to driver


class GroupProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Collectives of one group as a rank sees them. `members` is a hash of the sorted ranks."""

    members: int
    kind: str  # of the last one enqueued: "all_reduce", "barrier", …
    enqueued: int
    done: int
    fingerprint: int = 0  # of (kind, dtype, shape) of the last one enqueued
    step: int = 0
    ranks: tuple[int, ...] = ()  # the members, where known
    marks: tuple[tuple[int, int], ...] = ()  # (step, enqueued when it ended), a few common steps
    good: int = 0  # the last reduction into which it was seen to bring numbers
    bad: int = 0  # the first since then into which it brought none (NaN or infinite)
    bad_step: int = 0  # the step that this was in


class Collective(NamedTuple):
    """One of a group: the first that it enqueued has number 1."""

    number: int
    kind: str
    fingerprint: int


class Recent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The last collectives of a group (`members`: its hash), told where the rank stands or died."""

    members: int
    collectives: tuple[Collective, ...]


class PeerProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Point-to-point messages with one peer: enqueued and done, each way."""

    peer: int
    sends: int = 0
    sends_done: int = 0
    receives: int = 0
    receives_done: int = 0


class BadLoss(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A loss that is no number (NaN or infinite), as its rank told it. Steps are the script's."""

    told: int  # so often in a row
    since: int  # the step of the first of them
    last: int  # and of the last
    good: int = 0  # the step of the last one before, which was a number
    goods: int = 0  # how many were numbers since the rank's start


class RankProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A rank as the daemon sees it: its ring, and its process from outside."""

    rank: int
    epoch: int
    job: str = ""
    pid: int = 0
    process: str = ""  # one letter of /proc/PID/stat, "gone", or "" where it cannot be seen
    cpu_s: float = 0.0  # of the rank and its children
    memory_bytes: int = 0  # of the rank without its children, resident; 0: not known
    step: int = 0  # optimizer steps completed
    phase: str = ""
    groups: tuple[GroupProgress, ...] = ()
    peers: tuple[PeerProgress, ...] = ()
    loss: float | None = None
    bad_loss: BadLoss | None = None  # while it is no number
    grad_norm: float | None = None  # of the gradients, as they were clipped or as the script tells
    tokens: int = 0  # so far, of this rank's replica
    still_s: float = 0.0  # since what the ring says of progress last changed
    silent_s: float = 0.0  # since the rank's own pulse last moved; it stops with the process
    waiting: bool = False  # the rank says that it waits for a peer
    partial: tuple[str, ...] = ()  # what the hooks could not be put on
    hooks: bool = False  # False: no ring, process-level care only
    wall_s: dict[str, float] = {}  # by phase, since the start
    thread_s: dict[str, float] = {}
    stopped_children: tuple[int, ...] = ()  # pids of the rank's children in state T
    frame: str = ""  # where its main thread stands in the user's code; "" where that is unknown
    frame_still_s: float = 0.0  # since its stack last changed
    moved_s: float | None = None  # since it or its children last moved bytes, or those used CPU
    moved: str = ""  # what that was
    unseen: tuple[str, ...] = ()  # what of that this daemon cannot see
    pause: str = ""  # what it says that it does in place of steps: "saves", "evaluates", …
    call: str = ""  # what its main thread does in the system call that it stands in
    sleep_s: float = 0.0  # length of the one sleep that it is in, at most; 0: its end is not known
    sleep_left_s: float = 0.0  # for how long that still lasts
    unsaved: int = 0  # steps since its start or its script's last save
    recent: tuple[Recent, ...] = ()  # where it stands still, or is gone
    stepped_s: float = 0.0  # when its last step ended, on a clock of its own; 0: it does not tell
    ran_s: float = 0.0  # CPU time of the thread that trains until then, but for pauses
    waited_s: float = 0.0  # that thread's waits for peers, but for those in pauses
    paused_s: float = 0.0  # its pauses
    garbage_s: float = 0.0  # for which Python's garbage collector went through all objects
    gpu_step: int = 0  # of which these four are, where they are its GPU's; 0: they are the thread's
    delayed_s: float = 0.0  # for which its main thread could run and had no processor
    throttled_s: float = 0.0  # for which its cgroup had used up its share of processors
    stopped_s: float = 0.0  # for which it was seen to be stopped (SIGSTOP)
    starts_s: dict[str, float] = {}  # how long ago it had met, loaded, stepped; in its first steps

    @property
    def timed_step(self) -> int:
        """The step of which its times are: a GPU tells of one some steps later."""
        return self.gpu_step or self.step


class NicRates(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One NIC or RDMA port: rates over the last period."""

    name: str
    up: bool = True
    carrier_changes: int = 0
    downs: int | None = None  # how often it went down, where that itself is counted
    sent_bytes_per_s: float = 0.0
    received_bytes_per_s: float = 0.0
    errors_per_s: float = 0.0
    lanes: int | None = None  # of PCIe, that it has now


class Probe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a neighbour answered. `reset`: it refused, which is another thing than silence."""

    node: str
    ok: bool
    rtt_s: float | None = None
    reset: bool = False
    silent_s: float = 0.0  # since it last answered
    heard: bool = False  # it asks here, and what is answered does not come to it


class Flow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What ranks here have sent to one address by TCP, all connections together, since the daemon
    began. Both are addresses as ranks use them: those of rails, where they have some."""

    local: str
    remote: str
    sent_bytes: int = 0  # that the other side has acknowledged
    busy_s: float = 0.0  # something was on its way, and had room there; of each connection
    segments: int = 0  # sent
    resent: int = 0  # of these, once more
    rtt_s: float = 0.0  # the longest of a connection, as its kernel smooths it


class LogHit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A line that matched a rule. `source`: "kernel", or "rank 3 stderr"."""

    source: str
    rule: str
    line: str
    rank: int | None = None
    xid: int | None = None
    job: str | None = None
    epoch: int | None = None
    always: bool = False  # `rule` is the name of one that every job has, and no pattern of its own

    @property
    def of_kernel(self) -> bool:
        return self.source == "kernel"


class Pressure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What the host is short of; fractions of 1."""

    cpu: float = 0.0
    memory: float = 0.0
    io: float = 0.0
    scratch_used: float = 0.0
    memory_used: float = 0.0
    steal: float = 0.0


class Gpu(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One GPU as its driver tells of it; None: not told."""

    index: int
    lost: bool = False  # it has fallen off the bus
    celsius: int | None = None
    slowed_by_heat: bool = False
    uncorrected_errors: int | None = None  # of its memory, since its driver was loaded
    remap_failed: bool = False  # no row is left that could stand in for a bad one
    recovery: str = ""  # what its driver wants done: "reset", "reboot", …
    lanes: int | None = None  # of PCIe, that it has now
    memory_bytes: int | None = None  # in use, by whoever


class NcclRank(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A rank of which NCCL itself tells something, as its RAS knows it: by host and pid."""

    what: str  # "dead", "silent", "failed", "left", "behind"
    host: str
    pid: int
    rank: int | None = None  # of the whole job, where one communicator has all its ranks
    error: int = 0  # of ncclResult_t
    communicator: str = ""  # its hash, for what is told of one
    size: int = 0  # of that
    operation: str = ""  # in which it is behind
    launched: int = 0  # of these by it
    furthest: int = 0  # of these by the first
    furthest_ranks: int = 0  # how many have launched as many


class Nccl(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What NCCL told of a job that stands still, asked on the node of its rank 0."""

    job: str
    epoch: int
    version: str
    communicators: int = 0
    world: int = 0  # ranks of the communicator that ranks are named after; 0: none is known
    ranks: tuple[NcclRank, ...] = ()  # the gravest first
    more: int = 0  # of these that are not listed


class Heartbeat(Message, frozen=True):
    """Once a period, and at once with `urgent` set when it cannot wait."""

    node: str
    incarnation: str
    sequence: int
    uptime_s: float
    executor_alive: bool = True
    ranks: tuple[RankProgress, ...] = ()
    nics: tuple[NicRates, ...] = ()
    flows: tuple[Flow, ...] = ()  # every few seconds; those not in it stand as they were
    probes: tuple[Probe, ...] = ()
    logs: tuple[LogHit, ...] = ()
    pressure: Pressure = Pressure()
    urgent: bool = False
    gpus: tuple[Gpu, ...] = ()
    nccl: Nccl | None = None  # while a job stands still
    unreadable: tuple[str, ...] = ()  # what this daemon cannot read now, and why
    sent_s: float = 0.0  # on the monotonic clock of its machine


# ---------------------------------------------------------------- driver to daemon


class Acknowledged(Message, frozen=True):
    """Answer to a heartbeat: so a half-open link shows on both sides.

    What was said up to `sequence` need not be said again, for nothing of it can be lost any more.
    That may be less than the heartbeat that is answered, and nothing at all (0 or below). The rest
    tells two clocks apart: when the heartbeat was sent on the daemon's, and when it came and was
    answered on the driver's.
    """

    sequence: int
    sent_s: float = 0.0
    came_s: float = 0.0
    answered_s: float = 0.0


class Traced(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job whose ranks' spans are kept. `whole`: all of them for now, and not of some steps."""

    job: str
    submitted_s: float  # on the driver's clock: spans are told from here
    whole: bool = False


class WatchOrder(Message, frozen=True, tag="Watch"):
    """What a daemon should do, whole: its period, and which neighbours to probe (name, address).

    Of a connection's, the newest (term, number) counts.
    """

    heartbeat_period_s: float
    neighbours: tuple[tuple[str, str], ...] = ()
    probe_port: int = 0
    term: int = 0
    number: int = 0  # counted by the driver over all nodes
    traced: tuple[Traced, ...] = ()  # jobs with seats here


class AskBurst(Message, frozen=True):
    """Count what the node's rails move each millisecond, for so long; answered by `BurstTaken`."""

    id: str
    seconds: float


class BurstTaken(Message, frozen=True):
    """What was counted (`traces.bursts.record`), or why nothing was."""

    id: str
    data: bytes = b""
    why: str = ""


ToExecutor = Welcome | Refused | Desired | AskStacks | AskLog
FromExecutor = Hello | Refused | Observed | Stacks | LogChunk | LastLines
ToDaemon = Welcome | Refused | Acknowledged | WatchOrder | AskBurst
FromDaemon = Hello | Refused | Heartbeat | BurstTaken

MAX_FRAME_BYTES = 1 << 20
"""A larger frame is refused: a heartbeat of 8 ranks is some KiB, a log chunk 64 KiB."""
