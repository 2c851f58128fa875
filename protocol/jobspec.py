"""The one job spec: a `TrainingJob` for REST, the command line and the custom resource.

Called by the driver's edge and the command line through `protocol.jobcheck.check`, which tells all
mistakes at once. The JSON schema is exported from here (`schema()`); nodes never see this, they get
a `messages.Task`. Must not read a file or ask a clock: what it refuses, it refuses on any machine.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from holdfast.kit import patterns
from holdfast.kit.alike import near
from holdfast.kit.patterns import NoPattern
from holdfast.protocol import jobrules, storeurl
from holdfast.protocol.communication import Communication
from holdfast.protocol.flops import PEAKS
from holdfast.protocol.jobrules import RESERVED as RESERVED
from holdfast.protocol.podspec import Pod
from holdfast.protocol.specmodel import Model, sentence
from holdfast.protocol.topology import DEFAULT_ORDER, Axis, Topology

NAME_PATTERN = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, min_length=1, max_length=63)]
EnvName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", min_length=1, max_length=256)
]
Text = Annotated[str, StringConstraints(max_length=32_768)]
Label = Annotated[str, StringConstraints(max_length=63)]


class Metadata(Model):
    """Who the job is."""

    name: Name
    """Name of the job, unique among the jobs of this driver (DNS-1035, at most 63 characters)."""
    labels: dict[Label, Label] = Field(default_factory=dict, max_length=64)
    """Free labels, for filters: `?label=team=speech`."""


ORDER_FIX = "Name each of dp, pp, tp exactly once, e.g. [tp, dp, pp]."


class Parallel(Model):
    """Sizes of the parallel axes; their product is nodes x ranksPerNode."""

    dp: int = Field(default=0, ge=0, le=1_000_000)
    """Data-parallel size; 0 means whatever is left of the world."""
    pp: int = Field(default=1, ge=1, le=10_000)
    """Pipeline-parallel size."""
    tp: int = Field(default=1, ge=1, le=1_024)
    """Tensor-parallel size."""
    order: tuple[Axis, ...] = Field(default=DEFAULT_ORDER, min_length=3, max_length=3)
    """Axes by how fast they vary with the rank, fastest first; each of dp, pp, tp once."""

    @model_validator(mode="after")
    def _each_axis_once(self) -> Self:
        if sorted(self.order) != sorted(Axis):
            raise sentence(
                f"order {[str(axis) for axis in self.order]} does not have each axis once.",
                ORDER_FIX,
            )
        return self


LEAST_MB_PER_S = 1.0
LEAST_CPUS = 0.01
NO_STORE = "this is no store that this Holdfast knows."


class Checkpoint(Model):
    """Two stages: to the node's memory often, to a store now and then."""

    memory_interval_steps: int = Field(default=1, ge=0, le=1_000_000)
    """Steps between snapshots to the node's memory; 0 takes none."""
    store_interval_steps: int = Field(default=50, ge=0, le=10_000_000)
    """Steps between checkpoints to the store; 0 writes none."""
    store_url: str = Field(default="", max_length=4_096)
    """Where checkpoints go, e.g. `file:///data/ckpt`; empty: beside the job's logs. Each job that
    is submitted writes to a folder of its own there, and reads no other."""
    begin_from: str = Field(default="", max_length=4_096)
    """What an earlier job left, to go on from: the URL of its own folder below a `storeUrl`, or of
    one checkpoint in it. Nothing there is changed. Empty: the job starts anew."""
    retention: int = Field(default=2, ge=1, le=10_000)
    """Whole checkpoints that are kept in the store, newest first."""

    peer_interval_steps: int = Field(default=0, ge=0, le=1_000_000)
    """Steps between copies in the memory of another node, from which a job goes on when a node is
    lost; 0 makes none. Each node needs room for three more snapshots of as many ranks."""
    keep_every_steps: int = Field(default=0, ge=0, le=1_000_000_000)
    """Beyond those, each checkpoint whose step is a multiple of this is kept for ever, say 1000; 0
    keeps no other. A multiple of `storeIntervalSteps`."""
    upload_mb_per_s: float = Field(default=0, ge=0, le=1_000_000)
    """Megabytes a second that a node writes to the store at most, for all its ranks; 0: as fast as
    it goes. What is ordered before a node is given up is not held back."""
    upload_cpus: float = Field(default=0, ge=0, le=64)
    """Share of one core that it takes for that at most, e.g. 0.25; 0: as much as it takes."""
    upload_idle: bool = False
    """Take only CPU and disk that nobody else on the node wants. Where ranks keep all cores busy
    nothing gets written then."""

    @field_validator("upload_mb_per_s")
    @classmethod
    def _gets_on(cls, rate: float) -> float:
        if 0 < rate < LEAST_MB_PER_S:
            raise sentence(
                f"{rate:g} is so slow that the store would be taken for one that hangs.",
                f"Set at least {LEAST_MB_PER_S:g}, or 0 for no bound.",
            )
        return rate

    @field_validator("upload_cpus")
    @classmethod
    def _has_time(cls, share: float) -> float:
        if 0 < share < LEAST_CPUS:
            raise sentence(
                f"{share:g} of a core writes next to nothing.",
                f"Set at least {LEAST_CPUS:g}, or 0 for no bound.",
            )
        return share

    @field_validator("store_url", "begin_from")
    @classmethod
    def _is_a_store(cls, url: str) -> str:
        if storeurl.has_password(url):
            raise sentence(storeurl.SECRET, storeurl.SECRET_FIX, secret=True)
        if url and storeurl.place_of(url) is None:
            wrong = storeurl.amiss(url)
            raise sentence(f"this {wrong.what}", wrong.fix)
        return url


class Budget(Model):
    """How many recoveries of one kind a job may use within a sliding window. One after which it had
    got on for ten times as long as a restart takes does not count.
    """

    restarts: int = Field(default=3, ge=0, le=100_000)
    """Recoveries allowed within the window; 0 fails the job at the first fault."""
    window_s: float = Field(default=3_600, gt=0, le=31_536_000)
    """Length of the sliding window, in seconds."""


class InfrastructureBudget(Budget):
    """The same for what is no fault of the user's; each field has a default of its own."""

    restarts: int = Field(default=100, ge=0, le=100_000)
    """Recoveries allowed within the window; 0 fails the job at the first fault."""
    window_s: float = Field(default=86_400, gt=0, le=31_536_000)
    """Length of the sliding window, in seconds."""


class Recovery(Model):
    """Budgets; faults of the infrastructure and of the user's code are counted apart."""

    infrastructure: InfrastructureBudget = InfrastructureBudget()
    """For nodes lost, ranks killed, hangs."""
    user: Budget = Budget()
    """For exceptions of the user's code."""
    on_bad_loss: Literal["rollback", "tell", "fail"] = "rollback"
    """What follows where the loss stays no number on all ranks that tell one. `rollback`: the job
    starts from what it saved before, and goes on as it is where that led to the same; `fail`: it
    ends there; `tell`: nothing is done."""


class Timeouts(Model):
    """How long to wait for each thing before it counts as failed; seconds."""

    start_s: float = Field(default=600, gt=0, le=86_400)
    """Seconds from ranks told to start until all run."""
    hang_floor_s: float = Field(default=5, ge=1, le=86_400)
    """Shortest standstill that counts, in seconds: a hang is max(3 median steps, this)."""
    first_step_s: float = Field(default=600, gt=0, le=86_400)
    """Seconds that a rank may take to its first step: standing still before it is not a hang."""
    pause_max_s: float = Field(default=600, gt=0, le=86_400)
    """Seconds without a step that a rank may work on something else, e.g. evaluate or save."""
    stuck_max_s: float | None = Field(default=None, gt=0, le=86_400)
    """Seconds that a rank may be stuck: nothing of it moves, e.g. while it waits for an answer.
    Three times hangFloorS by default; at most pauseMaxS, and never less than hangFloorS."""
    grace_s: float = Field(default=30, ge=0, le=3_600)
    """Seconds from SIGTERM to SIGKILL when a job is stopped or suspended."""
    diagnose_s: float = Field(default=60, gt=0, le=3_600)
    """Upper bound of one diagnosis, in seconds."""


class LogRule(Model):
    """A pattern in a rank's output that is worth a finding."""

    pattern: str = Field(min_length=1, max_length=1_024)
    """Regular expression of RE2 (Python's without lookaround and backreferences), searched in each
    line of stdout and stderr."""
    action: Literal["report", "restart", "suspect"] = "report"
    """What a hit may lead to."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            patterns.check(pattern)
        except NoPattern as error:
            raise sentence(str(error), error.fix) from error
        return pattern


class NodeClass(Model):
    """Diagnostic thresholds: what a healthy node of this job reaches."""

    compute_gflops: float = Field(default=0, ge=0, le=1e9)
    """Least speed of the compute test, in GFLOP/s; 0: half of the median of those tested."""
    allreduce_mb_per_s: float = Field(default=0, ge=0, le=1e9)
    """Least bandwidth of the neighbour all-reduce, in MB/s; 0: half of the median."""


class Mfu(Model):
    """By what its model FLOPs utilization is known; without both it is not told."""

    flops_per_token: float = Field(default=0, ge=0, le=1e18)
    """FLOPs to train on one token, 6N + 12LHQT say; 0: not told."""
    device: str = Field(default="", max_length=63)
    """What each rank computes on, H100-SXM say: its peak in BF16 is known (docs/metrics.md)."""
    peak_tflops: float = Field(default=0, ge=0, le=1e6)
    """In place of that, the peak of one rank's device in TFLOP/s, dense, of the type that is used;
    0: not told."""

    @field_validator("device")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value and value not in PEAKS:
            close = near(value, PEAKS, most=1)
            meant = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(PEAKS)}."
            raise sentence(f"the peak of {value!r} is not known.", f"{meant} Or give peakTflops.")
        return value

    @model_validator(mode="after")
    def _one_peak(self) -> Self:
        if self.device and self.peak_tflops:
            raise sentence("device and peakTflops both tell the peak.", "Give one of them.")
        return self


class Spec(Model):
    """What is wanted."""

    nodes: int = Field(default=1, ge=1, le=100_000)
    """Nodes that carry ranks."""
    ranks_per_node: int = Field(default=1, ge=1, le=1_024)
    """Ranks on each node, usually one a GPU."""
    standbys: int = Field(default=0, ge=0, le=1_000)
    """Nodes held warm beside the job, to take over at once."""
    command: tuple[Text, ...] = Field(min_length=1, max_length=4_096)
    """Program and arguments, e.g. [python, train.py, --lr, "3e-4"]. No shell is involved."""
    workdir: str = Field(default=".", min_length=1, max_length=4_096)
    """Working directory of each rank; must be readable on every node."""
    env: dict[EnvName, Text] = Field(default_factory=dict, max_length=1_024)
    """Added to each rank's environment; RANK and its like are set by Holdfast and cannot be."""
    topology: Parallel = Parallel()
    """How the world is split."""
    checkpoint: Checkpoint = Checkpoint()
    """Two-stage checkpoints, for scripts that use `holdfast.checkpoint`."""
    communication: Communication = Communication()
    """Where ranks meet, and what NCCL and gloo are told."""
    recovery: Recovery = Recovery()
    """How much may go wrong before the job is given up."""
    timeouts: Timeouts = Timeouts()
    """Waits and their limits."""
    log_rules: tuple[LogRule, ...] = Field(default=(), max_length=256)
    """Patterns to look for in the ranks' output."""
    node_class: NodeClass = NodeClass()
    """Thresholds of the diagnostics."""
    mfu: Mfu = Mfu()
    """What its speed is compared with."""
    suspend: bool = False
    """Hold the job: it gives its nodes back and keeps its place."""
    deadline_s: float | None = Field(default=None, gt=0, le=31_536_000)
    """Seconds from submission until the job is ended as Failed; none by default."""
    ttl_s: float | None = Field(default=None, ge=0, le=31_536_000)
    """Seconds that a finished job is kept before it is deleted; a week by default, but for ever on
    Kubernetes. Its checkpoints stay."""
    pod: Pod | None = None
    """How its pods are made. Needed on Kubernetes, refused by clusters without pods."""

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node

    def sized(self) -> Topology:
        """The topology with `dp` worked out."""
        split = self.topology
        dp = split.dp or self.world_size // (split.pp * split.tp)
        return Topology(dp=dp, pp=split.pp, tp=split.tp, order=split.order)

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        split = self.topology
        sizes = jobrules.sizes(
            nodes=self.nodes,
            ranks_per_node=self.ranks_per_node,
            dp=split.dp,
            pp=split.pp,
            tp=split.tp,
        )
        waits = self.timeouts
        stuck = jobrules.stuck(stuck_max_s=waits.stuck_max_s, pause_max_s=waits.pause_max_s)
        kept = jobrules.kept(
            keep_every_steps=self.checkpoint.keep_every_steps,
            store_interval_steps=self.checkpoint.store_interval_steps,
        )
        rules = (sizes, stuck, kept, jobrules.own_environment(self.env))
        found = [rule for rule in rules if rule is not None]
        if found:
            said = " ".join(str(mistake) for mistake in found)
            raise PydanticCustomError("contradictions", "{said}", {"said": said, "mistakes": found})
        return self


class TrainingJob(Model):
    """A training job that Holdfast keeps running."""

    api_version: Literal["holdfast.dev/v1alpha1"] = "holdfast.dev/v1alpha1"
    """Version of this schema."""
    kind: Literal["TrainingJob"] = "TrainingJob"
    """Kind of this object."""
    metadata: Metadata
    """Its name and labels."""
    spec: Spec
    """What is wanted of it."""


def schema() -> dict[str, Any]:
    """The JSON schema of a `TrainingJob`, with every field's sentence, default and bound."""
    return TrainingJob.model_json_schema(by_alias=True)
