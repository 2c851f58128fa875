"""Everything that can have happened, in the past tense; one class for each way an effect can end.

Made by the driver's edge (requests), its node sessions (observations), its detectors (findings) and
its effect runner (outcomes). `cause` is the sequence number of the journal entry that led to it;
None where the outside did. Immutable, and decodable from the journal by tag.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, Union

import msgspec

from holdfast.protocol.faults import Finding
from holdfast.protocol.messages import (
    DiagnosticResult,
    RankStatus,
    Rendezvous,
    Snapshot,
    Stored,
    Task,
)
from holdfast.protocol.topology import Topology


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True, gc=False):
    """Base of all events; the class name is the tag."""

    cause: int | None = None


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    restarts: int
    window_s: float


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the core needs of a job spec; made at the edge by `spec_to_plan.plan_of`."""

    task: Task
    nodes: int
    ranks_per_node: int
    standbys: int = 0
    topology: Topology = Topology()
    infrastructure: Budget = Budget(restarts=100, window_s=86_400)
    user: Budget = Budget(restarts=3, window_s=3_600)
    start_s: float = 600
    hang_floor_s: float = 5  # for the detectors, like the next three
    first_step_s: float = 600
    pause_max_s: float = 600
    stuck_max_s: float | None = None
    diagnose_s: float = 60
    grace_s: float = 30
    node_class: dict[str, float] = {}  # least values of tests, by the names that they have there
    suspend: bool = False
    deadline_s: float | None = None
    ttl_s: float | None = None
    on_bad_loss: str = "rollback"  # or "tell", or "fail"
    log_rules: tuple[tuple[str, str], ...] = ()  # pattern and "report", "restart" or "suspect"
    spec: bytes = b""  # the whole spec as JSON, for people; the core never looks inside


# ---------------------------------------------------------------- what people asked for


class Request(Event, frozen=True, kw_only=True):
    """Base of what people want or tell; `by` is who does, where that is known."""

    by: str = ""

    @property
    def who(self) -> str:
        """For people."""
        return self.by or "a person"


class JobRequest(Request, frozen=True):
    """Base of what people want of a job that is there."""

    job: str


class NodeRequest(Request, frozen=True):
    """Base of what people want of a node, or tell of it."""

    node: str


class BrakeRequest(Request, frozen=True):
    """Base of what people want of the brake."""

    reason: str


class JobSubmitted(Request, frozen=True):
    job: str
    plan: Plan


class UpdateRequested(JobRequest, frozen=True):
    """It is to run another version of itself, as soon as what runs has saved and ended.

    `fields`: of its spec, those that are other than in the version before.
    """

    plan: Plan
    fields: tuple[str, ...]


class SuspendRequested(JobRequest, frozen=True):
    """It is to give its nodes back, and to keep its place."""


class ResumeRequested(JobRequest, frozen=True):
    """A suspended job is to go on; or, with `from_step`, one that waits to know what its store has.

    `from_step`: a person's word that its ranks may start there, whatever was stored; 0 is the
    beginning.
    """

    from_step: int | None = None


class StopRequested(JobRequest, frozen=True):
    """It is to end; what is known of it is kept. `interrupt`: as by Ctrl-C in a terminal."""

    interrupt: bool = False


class DeleteRequested(JobRequest, frozen=True):
    """It is to end, and to be forgotten."""


class NodeEvictRequested(NodeRequest, frozen=True):
    reason: str


class NodeRestoreRequested(NodeRequest, frozen=True):
    reason: str


class NodeMaintainRequested(NodeRequest, frozen=True):
    """The node is to be free, within `within_s` if there is a limit. Nothing is wrong with it."""

    reason: str
    within_s: float | None = None


Says = Literal["accuses", "clears", "context"]
"""What a fact is for whom it is told of: something is wrong with it, nothing is (any more), or it
is for people alone."""


class NodeFactTold(NodeRequest, frozen=True):
    """A person knows something of a node, or of the link from it `to` another one. `clears`: what
    was held against it is void."""

    words: str
    to: str = ""
    says: Says = "context"


class JobFactTold(Request, frozen=True):
    """A person knows something of a version of a job. None: of the newest."""

    job: str
    words: str
    version: int | None = None
    says: Says = "context"


class DiagnoseRequested(Request, frozen=True):
    """These nodes are to be tested; () is all that can be. Nobody is evicted for what is found."""

    nodes: tuple[str, ...] = ()


class DiagnoseEndRequested(Request, frozen=True):
    """Who asked does not want to know any more: the tests end at once."""

    diagnosis: int


class CalibrateRequested(Request, frozen=True):
    """What the good nodes of this diagnosis reached is what nodes have to reach from now on."""

    diagnosis: int


class BrakeApplyRequested(BrakeRequest, frozen=True):
    """Nobody is to be evicted any more but by people."""


class BrakeReleaseRequested(BrakeRequest, frozen=True):
    """A person has looked: nodes may be evicted again."""


# ---------------------------------------------------------------- what the cluster says


class NodeAppeared(Event, frozen=True):
    """A node is there (again): its lease is alive. `closed`: why it is to get no new work.

    `notice`: why it is to be free, within `within_s` where there is a limit; "" where it is not.
    `unmarked`: the cluster has no mark on it that we distrust it. `machine`: what tells it from
    another that had the same name; "" where the cluster cannot say.
    """

    node: str
    rack: str = ""
    machine: str = ""
    closed: str = ""
    unmarked: bool = False
    notice: str = ""
    within_s: float | None = None


class NodeVanished(Event, frozen=True):
    """The cluster itself says that a node is gone: one source, not yet a finding."""

    node: str
    why: str = ""


class OfMember(Event, frozen=True):
    """Base of what is said of a node that a job has, or is to have."""

    job: str
    node: str


class NodeFits(OfMember, frozen=True):
    """A node that was refused to the job for want of room has room for it now."""


class ExecutorEnded(OfMember, frozen=True):
    """The cluster ended an executor that a job had been given: deleted, evicted, preempted.

    Nothing is said against the node. A release that was asked for ends as NodeReleased instead.
    """

    why: str


class ExecutorEnding(OfMember, frozen=True):
    """The cluster is going to end an executor that a job has, `within_s` from now at the latest.

    Until then it works, and it goes by itself once the node is given back. `evicted`: somebody
    wants it off this node, as when that is drained.
    """

    why: str
    within_s: float
    evicted: bool = False


class ExecutorStarved(OfMember, frozen=True):
    """An executor that a job has was killed for memory, its ranks with it; it comes back by itself.

    `limit_bytes`: of all that runs there; 0 where it has none, or nobody knows.
    """

    limit_bytes: int = 0


class ExecutorLingers(OfMember, frozen=True):
    """An executor that was to end is still there for the cluster, for its node, which is away,
    never confirms it; or, `stray`, nobody wants it there, as after a journal was lost. Told again
    for as long as that is so.
    """

    why: str
    stray: bool = False


# ---------------------------------------------------------------- what executors said


class ExecutorConnected(Event, frozen=True):
    """`term`: the one that it has followed, where that was another driver's; else 0."""

    node: str
    incarnation: str
    address: str
    generation: int = 0
    epoch: int = 0
    term: int = 0


class ExecutorDisconnected(Event, frozen=True):
    """The connection ended. Not a fault by itself: an executor reconnects."""

    node: str
    incarnation: str


class OfEpoch(Event, frozen=True):
    """Base of what is said of the ranks of one epoch of a job."""

    job: str
    epoch: int


class NodeQuiet(OfEpoch, frozen=True):
    """No rank of an older epoch is left on the node; what it holds that one could restore from.

    `killed`: ranks that had not ended when their grace was over.
    `looking`: why it is not known yet what else the store holds; "" where it is, or where another
    node is to look. `preparing`: what its store has to wait for, alive as its executor sees to.
    `warming`: it still imports what ranks need.
    """

    node: str
    killed: tuple[int, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    peer_port: int = 0
    stored: tuple[Stored, ...] = ()
    looking: str = ""
    preparing: str = ""
    warming: bool = False
    damaged: tuple[Stored, ...] = ()
    store_error: str = ""
    agent_silent: str = ""


class CheckpointStored(OfEpoch, frozen=True):
    """The manifest of `step`, which ranks of `epoch` saved, is in the store: it is acknowledged."""

    node: str
    step: int


class RendezvousReady(OfEpoch, frozen=True, tag="StoreReady"):
    """The process that hosts the epoch's rendezvous listens."""

    node: str
    rendezvous: Rendezvous


class RendezvousLost(OfEpoch, frozen=True, tag="StoreLost"):
    """The process that hosts the epoch's rendezvous died though ranks knew its address."""

    node: str


class RanksRunning(OfEpoch, frozen=True):
    """All ranks that the node should run have been started."""

    node: str


class RanksExited(OfEpoch, frozen=True):
    """Ranks of the current epoch ended; `step` is the last that all ranks had completed.

    `saved` is how many steps of this attempt its script was seen to save, where ranks count them
    from their own start.
    """

    node: str
    exits: tuple[RankStatus, ...]
    step: int | None = None
    saved: int = 0


class DesiredRefused(Event, frozen=True):
    """An executor would not accept what it was told."""

    node: str
    generation: int
    why: str


class DiagnosticEnded(Event, frozen=True):
    """One node's results of a diagnosis, all its tests."""

    node: str
    id: str
    results: tuple[DiagnosticResult, ...]


# ---------------------------------------------------------------- what detectors concluded


class Found(Event, frozen=True):
    finding: Finding


Ages = dict[str, float]
"""How long ago the last rank of an attempt was past each stage of its start
(`telemetry.schema.STARTS`), in seconds; what nobody told is left out."""


class StepsRepeated(OfEpoch, frozen=True):
    """First step of an attempt whose ranks count from their own start, as earlier ones did. Once
    each.

    `since` is how far its script had saved by the end of the attempt before, 0: the beginning;
    `before` is how far any attempt came. Both are counted from the job's beginning.
    """

    since: int
    before: int
    starts_s: Ages = {}


class Reached(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a job was, as the detectors saw it: what people are shown, and nobody decides on."""

    step: int
    relative: bool = False  # counted from the start of the attempt


class RanksLeft(Event, frozen=True):
    """The ranks of a job are to run no more, for whatever reason; nobody follows them from here."""

    job: str
    reached: Reached


class FasterSeen(OfEpoch, frozen=True):
    """The job's steps take less time than was told before, by so much that it is worth an entry.

    What people compare its speed with, and nobody decides on; a driver that takes over knows it.
    """

    best_step_s: float


class SaveProgressed(OfEpoch, frozen=True):
    """The store has taken more of the step that is saved before nodes are left: so much in all."""

    taken_bytes: int


class ProgressSeen(OfEpoch, frozen=True):
    """First step of an epoch that no earlier epoch had reached: the recovery is over. Once each.

    `step` is None where ranks count from their own start, so that no two epochs compare; `before`
    is the highest step that all ranks had completed in any earlier epoch, where that is known.
    `stepless`: no step was seen in any epoch, but collectives go on; where one is seen yet, that is
    told as well.
    """

    step: int | None = None
    before: int | None = None
    stepless: bool = False
    starts_s: Ages = {}


# ---------------------------------------------------------------- how effects ended


class NodeAllocated(OfMember, frozen=True):
    """The cluster gave the node to the job, or to its exam."""


class AllocationFailed(OfMember, frozen=True):
    """`unfit`: for a reason of the job's own, so that others may have the node. `barred`: and so
    that this job would get no other either. Of an exam: the node could not be had for it.

    `late`: the cluster tried for as long as it may, while it had other nodes of the same start.
    `others`: nodes that cannot run the job as it is either, and why, as far as the cluster knows
    that without a try.
    """

    why: str
    unfit: bool = False
    barred: bool = False
    late: bool = False
    others: dict[str, str] = {}


class NodeReleased(Event, frozen=True):
    node: str


class NodeDistrusted(Event, frozen=True):
    """The cluster took note that the node is not to be used."""

    node: str


class NodeTrusted(Event, frozen=True):
    node: str


class ClusterCallFailed(Event, frozen=True):
    """A call to the cluster failed and may be tried again."""

    call: str  # "release", "distrust" or "trust"
    node: str
    why: str


class StacksTaken(Event, frozen=True):
    """Stacks as text by rank; part of an incident's evidence. Bounded in size by the edge."""

    job: str
    incident: int
    stacks: dict[int, str]


class StacksFailed(Event, frozen=True):
    job: str
    incident: int
    why: str


# ---------------------------------------------------------------- time and the driver itself


class Ticked(Event, frozen=True):
    """A deadline in the state has passed: of these jobs, or of these exams; where none is named of
    nodes, or of the cluster as a whole. The loop says that something is, `batch.deadlines` of whom.
    """

    jobs: tuple[str, ...] = ()
    exams: tuple[str, ...] = ()


class Stalled(Event, frozen=True):
    """The driver stood still for `stood_s`: it read nothing and did nothing, until now."""

    stood_s: float


class DriverStarted(Event, frozen=True):
    """A driver took over with this term; facts follow as ordinary events."""

    term: int


def _kinds(base: type[Event]) -> Iterator[type[Event]]:
    """Those below it that something happens as: the base of others is none."""
    for kind in base.__subclasses__():
        yield from _kinds(kind) if kind.__subclasses__() else (kind,)


if TYPE_CHECKING:
    AnyEvent = Event
else:
    AnyEvent = Union[tuple(_kinds(Event))]  # noqa: UP007 as many as there are
"""Each of them, which a journal tells by its tag."""
