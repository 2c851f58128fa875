"""The one job spec: a `TrainingJob` for REST, the command line and the custom resource.

Called by the driver's edge and the command line (pydantic tells all mistakes at once). The JSON
schema is exported from here (`schema()`); nodes never see this, they get a `messages.Task`.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from holdfast.protocol.topology import DEFAULT_ORDER, Axis, Topology

Name = Annotated[
    str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=63)
]
EnvName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", min_length=1, max_length=256)
]
Text = Annotated[str, StringConstraints(max_length=32_768)]
Label = Annotated[str, StringConstraints(max_length=63)]


class Model(BaseModel):
    """Base: unknown fields are mistakes, values are frozen, names are camelCase outside."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        alias_generator=lambda name: "".join(
            part if place == 0 else part.capitalize() for place, part in enumerate(name.split("_"))
        ),
        use_attribute_docstrings=True,
    )


class Metadata(Model):
    """Who the job is."""

    name: Name
    """Name of the job, unique among the jobs of this driver (DNS-1035, at most 63 characters)."""
    labels: dict[Label, Label] = Field(default_factory=dict, max_length=64)
    """Free labels, for filters: `?label=team=speech`."""


class Parallel(Model):
    """Sizes of the parallel axes; their product is nodes x ranksPerNode."""

    dp: int = Field(default=0, ge=0, le=1_000_000)
    """Data-parallel size; 0 means whatever is left of the world."""
    pp: int = Field(default=1, ge=1, le=10_000)
    """Pipeline-parallel size."""
    tp: int = Field(default=1, ge=1, le=1_024)
    """Tensor-parallel size."""
    order: tuple[Axis, ...] = DEFAULT_ORDER
    """Axes by how fast they vary with the rank, fastest first; each of dp, pp, tp once."""

    @model_validator(mode="after")
    def _each_axis_once(self) -> Self:
        if sorted(self.order) != sorted(Axis):
            raise ValueError("order: name each of dp, pp, tp exactly once, e.g. [tp, dp, pp]")
        return self


class Checkpoint(Model):
    """Two stages: to the node's memory often, to a store now and then."""

    memory_interval_steps: int = Field(default=1, ge=0, le=1_000_000)
    """Steps between snapshots to the node's memory; 0 takes none."""
    store_interval_steps: int = Field(default=50, ge=0, le=10_000_000)
    """Steps between checkpoints to the store; 0 writes none."""
    store_url: str = Field(default="", max_length=4_096)
    """Where checkpoints go, e.g. `file:///data/ckpt/my-job`; empty: beside the job's logs."""
    retention: int = Field(default=2, ge=1, le=10_000)
    """Whole checkpoints that are kept in the store, newest first."""


class Budget(Model):
    """How many recoveries of one kind a job may use within a sliding window."""

    restarts: int = Field(default=3, ge=0, le=100_000)
    """Recoveries allowed within the window; 0 fails the job at the first fault."""
    window_s: float = Field(default=3_600, gt=0, le=31_536_000)
    """Length of the sliding window, in seconds."""


class Recovery(Model):
    """Budgets; faults of the infrastructure and of the user's code are counted apart."""

    infrastructure: Budget = Budget(restarts=100, window_s=86_400)
    """For nodes lost, ranks killed, hangs."""
    user: Budget = Budget(restarts=3, window_s=3_600)
    """For exceptions of the user's code."""


class Timeouts(Model):
    """How long to wait for each thing before it counts as failed; seconds."""

    start_s: float = Field(default=600, gt=0, le=86_400)
    """From ranks told to start until all run."""
    hang_floor_s: float = Field(default=5, ge=1, le=86_400)
    """Shortest standstill that counts; the rule is max(3 median steps, this) (design.md)."""
    first_step_s: float = Field(default=600, gt=0, le=86_400)
    """How long a rank may take before its first step: standing still before it is not a hang."""
    grace_s: float = Field(default=30, ge=0, le=3_600)
    """From SIGTERM to SIGKILL when a job is stopped or suspended."""
    diagnose_s: float = Field(default=60, gt=0, le=3_600)
    """Upper bound of one diagnosis."""


class LogRule(Model):
    """A pattern in a rank's output that is worth a finding."""

    pattern: str = Field(min_length=1, max_length=1_024)
    """Regular expression (RE2 subset of Python's), searched in each line."""
    action: Literal["report", "restart", "suspect"] = "report"
    """What a hit may lead to."""


class NodeClass(Model):
    """Diagnostic thresholds: what a healthy node of this job reaches."""

    compute_gflops: float = Field(default=0, ge=0, le=1e9)
    """Least speed of the compute test, in GFLOP/s; 0: half of the median of those tested."""
    allreduce_mb_per_s: float = Field(default=0, ge=0, le=1e9)
    """Least bandwidth of the neighbour all-reduce, in MB/s; 0: half of the median."""


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
    recovery: Recovery = Recovery()
    """How much may go wrong before the job is given up."""
    timeouts: Timeouts = Timeouts()
    """Waits and their limits."""
    log_rules: tuple[LogRule, ...] = Field(default=(), max_length=256)
    """Patterns to look for in the ranks' output."""
    node_class: NodeClass = NodeClass()
    """Thresholds of the diagnostics."""
    suspend: bool = False
    """Hold the job: it gives its nodes back and keeps its place."""
    deadline_s: float | None = Field(default=None, gt=0, le=31_536_000)
    """Seconds from submission until the job is ended as Failed; none by default."""
    ttl_s: float | None = Field(default=None, ge=0, le=31_536_000)
    """Seconds that a finished job is kept before it is deleted; for ever by default."""

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node

    def sized(self) -> Topology:
        """The topology with `dp` worked out."""
        split = self.topology
        dp = split.dp or self.world_size // (split.pp * split.tp)
        return Topology(dp=dp, pp=split.pp, tp=split.tp, order=split.order)

    @model_validator(mode="after")
    def _sizes_multiply(self) -> Self:
        split, world = self.topology, self.world_size
        if self.sized().world_size == world:
            return self
        have = f"nodes {self.nodes} x ranksPerNode {self.ranks_per_node} = {world}"
        inner = split.tp * split.pp
        want = f"tp {split.tp} x pp {split.pp} x dp {split.dp} = {inner * split.dp} ranks"
        if split.dp == 0:
            want = f"tp {split.tp} x pp {split.pp} = {inner} does not divide the world"
        fixes = []
        if world % inner == 0:
            fixes.append(f"dp: {world // inner}")
        ranks = inner * (split.dp or 1)
        if ranks % self.ranks_per_node == 0:
            fixes.append(f"nodes: {ranks // self.ranks_per_node}")
        fix = ", or ".join(fixes) or "sizes whose product is the world size"
        raise ValueError(f"topology: {want}, but {have}. Set {fix}.")

    @model_validator(mode="after")
    def _own_environment(self) -> Self:
        ours = sorted(name for name in self.env if name in RESERVED or name.startswith("HOLDFAST_"))
        if ours:
            raise ValueError(
                f"env: {', '.join(ours)} is set by Holdfast for each rank. Remove it from env."
            )
        return self


RESERVED = frozenset(
    "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK "
    "ROLE_WORLD_SIZE ROLE_NAME MASTER_ADDR MASTER_PORT".split()
)
"""Environment that a job may not set, for it would contradict the rank table."""


class TrainingJob(Model):
    """A training job that Holdfast keeps running."""

    api_version: Literal["holdfast.dev/v1alpha1"] = "holdfast.dev/v1alpha1"
    """Version of this schema."""
    kind: Literal["TrainingJob"] = "TrainingJob"
    """Kind of this object."""
    metadata: Metadata
    """Name and labels."""
    spec: Spec
    """What is wanted."""


def schema() -> dict[str, Any]:
    """The JSON schema of a `TrainingJob`, with every field's sentence, default and bound."""
    return TrainingJob.model_json_schema(by_alias=True)
