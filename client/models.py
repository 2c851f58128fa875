"""What the driver answers, as structs. Written by `python -m holdfast.lab.client`."""

from typing import Any

import msgspec


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Base of them. What a newer driver tells beside is passed over."""


class Done(Model, frozen=True, kw_only=True):
    """A request that was taken: it is in the journal."""

    name: str
    """Of the job or node it is about."""
    sequence: int
    """The journal entry that it became."""
    why: str
    """What was decided, in a sentence."""


class Place(Model, frozen=True, kw_only=True):
    """A node of a job and the ranks on it."""

    node: str
    """Name of the node; empty while there is none for these ranks."""
    ranks: list[int]
    pids: dict[int, int]
    """By rank, as its node counts them; of those that are heard of."""
    connected: bool
    """Whether its executor has a connection to the driver."""


class Layout(Model, frozen=True, kw_only=True):
    """How many ranks there are, and along which axes. `places` of the job says on which nodes."""

    number: int
    """One more each time that ranks start on other nodes; 0 while none has run on these."""
    dp: int
    pp: int
    tp: int
    nodes: int
    ranks_per_node: int


class RestorePoint(Model, frozen=True, kw_only=True):
    """A saved step that ranks could start from, or could but for its status."""

    step: int
    where: str
    """memory (of the job's nodes) or store."""
    status: str
    """sealed (not every rank has it), whole, verified (ranks started from it, and got further than
    any had been), or tainted (it is not used)."""
    why: str
    """It is tainted; else empty."""
    since_s: float | None
    """Seconds since it is known to be tainted; null where the last look found it so."""
    written_s: float | None
    """Seconds since it was written to the store; null where it was only found there."""
    attempt: int
    """The attempt that saved it; 0 where that is not known, as of the next one."""
    layout: int
    """The number of that attempt's layout."""
    version: int
    """The version of the job that it ran."""


class Budget(Model, frozen=True, kw_only=True):
    """Recoveries of one kind."""

    used: int
    """Within the window."""
    allowed: int
    window_s: float


class Failure(Model, frozen=True, kw_only=True):
    """Why a job was given up."""

    traceback: str
    """The user's own exception, whole; empty where there was none."""
    reason: str


class Exit(Model, frozen=True, kw_only=True):
    """How the rank that explains the others' ends ended."""

    rank: int
    node: str
    code: int | None
    signal: int | None
    message: str
    more: int
    """How many ranks of that attempt had ended beside it."""


class Job(Model, frozen=True, kw_only=True):
    """A job as it is now."""

    name: str
    labels: dict[str, str]
    phase: str
    wanted: str
    """What people want of it: run, suspend, stop or delete."""
    since_s: float
    """Seconds in this phase."""
    age_s: float
    """Seconds since it was submitted; of a finished job: until it ended."""
    why: str
    """The last decision, in a sentence."""
    waiting: str
    """What it waits for, if it does."""
    unsure_s: float | None
    """Seconds since it waits to know what its store has; null where it does not."""
    parked: str
    ranks: int
    places: list[Place]
    standbys: list[str]
    attempt: int
    """How often its ranks were started since it was submitted."""
    version: int
    """Of what it is to run: the number of its spec, which is 1 as it was submitted."""
    layout: Layout
    """Of its newest attempt while it runs; else what the next one has so far."""
    restore_points: list[RestorePoint]
    """What its ranks could start from, the newest first: what its store is known to have, and what
    is tainted; until ranks run also what its nodes have in memory."""
    step: int | None
    """Highest step that all ranks are known to have completed."""
    again_from: int | None
    """While steps are done again after a recovery: the one that its ranks went back to; else
    null."""
    stored_step: int | None
    """Of the newest whole checkpoint that its store is known to have; null where there is none."""
    stored_s: float | None
    """Seconds since that was written; null where it was only found, or there is none."""
    unsaved_step: int | None
    """Of a job that is over: the last step in its nodes' memory, where it did not reach the store;
    else null."""
    step_relative: bool
    """Steps are those of an optimizer, counted from the script's last start: nobody said which step
    that was."""
    step_s: float | None
    """Median time of a step, in seconds."""
    best_step_s: float | None
    """The least that this median has been, over all attempts; an earlier driver's within 5 %."""
    loss: float | None
    tokens_per_s: float | None
    mfu: float | None
    """Model FLOPs utilization, a part of 1; null where it is not known."""
    mfu_unknown: str
    """Why it is not known; empty where it is."""
    incident: int | None
    """The open one."""
    restarts: dict[str, Budget]
    """By whose fault: `infrastructure` and `user`."""
    failure: Failure | None
    exit: Exit | None
    rendezvous: str
    """Redis where its ranks meet; empty: a TCPStore on its first node."""
    communication: dict[str, str]
    """Environment by which NCCL and gloo are told what to do: by its spec, and by its own `env`. A
    node's own environment may set otherwise what `env` does not."""
    store_url: str
    """Where its checkpoints are: a folder of this job alone below the `storeUrl` of its spec."""
    spec: dict[str, Any]
    """As it was submitted, with its defaults."""


class JobList(Model, frozen=True, kw_only=True):
    """An answer."""

    items: list[Job]
    next: str | None = msgspec.field(name="continue")
    """Token of the next page; null on the last one."""


class Rank(Model, frozen=True, kw_only=True):
    """A rank for the pages."""

    rank: int
    node: str
    step: int
    pid: int = 0
    phase: str = ""
    loss: float | None = None
    process: str = ""
    still_s: float = 0.0
    hooks: bool = False


class JobProgress(Model, frozen=True, kw_only=True):
    """How far a job is. `step` is the last one that all ranks have completed."""

    job: str
    step: int
    best_step: int
    relative: bool = False
    loss: float | None = None
    tokens_per_s: float | None = None
    step_s: float | None = None
    best_step_s: float | None = None
    ranks: tuple[Rank, ...] = ()


class CurveMark(Model, frozen=True, kw_only=True):
    """What happened to the job."""

    incident: int
    at_s: float
    """When it was found, since the job's submission."""
    until_s: float | None
    """When the job was past where it had been; null where it was not, or not yet."""
    says: str


class Curves(Model, frozen=True, kw_only=True):
    """One value each moment; null where nobody told one then. Moments are at least `every_s` apart,
    and never more than 480."""

    job: str
    every_s: float
    at_s: list[float]
    """Since the job's submission."""
    step: list[int | None]
    """The last that all ranks had completed."""
    loss: list[float | None]
    step_s: list[float | None]
    """Median of the steps of late."""
    memory_bytes: list[int | None]
    """Resident, of the rank that has most, without its children."""
    gpu_memory_bytes: list[int | None]
    """In use of the GPU of which most is, on its nodes, as their drivers tell."""
    marks: list[CurveMark]
    """Faults of the job, the oldest first."""
    missing: list[str]
    """What is not known, a sentence each."""


class Attempt(Model, frozen=True, kw_only=True):
    """One start of all ranks."""

    attempt: int
    began: str
    """Time of day in UTC."""
    nodes: list[str]
    """In rank order."""
    source: str
    """What it started from: "memory", "store", or "beginning"."""
    step: int
    """The step that it started from."""
    version: int
    """Of the job, that it ran."""
    layout: int
    """Number of the layout that its ranks had; 0 where it is not known, as of an attempt that an
    earlier Holdfast started."""
    ended: str = ""
    """Time of day in UTC; empty while it runs."""
    why: str = ""
    """What ended it."""


class AttemptList(Model, frozen=True, kw_only=True):
    """An answer."""

    items: list[Attempt]


class Span(Model, frozen=True, kw_only=True):
    """What one rank did from a moment to another."""

    rank: int
    attempt: int
    node: str
    kind: str
    """"step", "forward", "backward", "collective", "p2p", "optimizer", "data", "save", "load",
    "pause", or "phase" where the script named it otherwise."""
    name: str
    """Which: "all_reduce"."""
    group: int
    """Hash of the members of a collective's group; 0: none."""
    step: int
    start_s: float
    """On the driver's clock, since the job's submission."""
    took_s: float
    waited_s: float
    """Of that the thread that trains waited for peers."""
    number: int
    """Which collective of its group, from 1; 0: none."""
    ended: bool
    """Whether it is over; else it was under way when it was last seen."""
    axis: str
    """"dp", "pp" or "tp": of the parallelism that the job declares; "": of none, or not known."""


class SpanList(Model, frozen=True, kw_only=True):
    """An answer."""

    job: str
    from_s: float
    to_s: float
    clock_error_s: dict[str, float]
    """How far each node's times may be off."""
    spans: list[Span]
    """In the order in which they began."""
    dropped: int
    """Spans that were lost, in the blocks that were read."""
    more: bool
    """Whether later ones were left out, for there are more than the limit."""
    troubles: list[str]
    """What could not be read, a sentence each."""


class BurstNote(Model, frozen=True, kw_only=True):
    """Which burst it is."""

    id: int
    """Counted from 1 for each job."""
    node: str
    began_at: str
    """Time of day, UTC."""
    why: str
    """Who asked, or the incident."""
    incident: int | None
    rails: list[str]
    samples: int


class TakenBurst(Model, frozen=True, kw_only=True):
    """A burst that was just taken, and whose."""

    job: str
    burst: BurstNote


class BurstList(Model, frozen=True, kw_only=True):
    """An answer."""

    job: str
    items: list[BurstNote]
    """Oldest first."""


class Rail(Model, frozen=True, kw_only=True):
    """One rail: figures of both directions together, and the bytes between samples of each."""

    name: str
    mean_bytes_per_s: float
    peak_bytes_per_s: float
    """In the busiest millisecond."""
    idle: float
    """Share of the milliseconds with less than a hundredth of the peak."""
    gap_s: float
    """The longest idle time."""
    gap_at_s: float
    """When it began."""
    errors: int
    drops: int
    period_s: float | None
    """After which its traffic is like itself again; null where it has no rhythm."""
    received_bytes: list[int]
    sent_bytes: list[int]


class Burst(Model, frozen=True, kw_only=True):
    """A node's rails, each millisecond."""

    job: str
    burst: BurstNote
    says: str
    """What it shows, in words."""
    seconds: float
    period_p50_s: float
    """Between two samples, at the median; a millisecond is meant."""
    period_p99_s: float
    missed: int
    """Milliseconds in which nobody looked."""
    cpu_s: float
    """That it took of the node's processors."""
    degraded: str
    """What could not be done as it should; else empty."""
    at_us: list[int]
    """When each sample was taken, since the first."""
    rails: list[Rail]


class Stack(Model, frozen=True, kw_only=True):
    """What some ranks show, all of them the same."""

    ranks: list[int]
    text: str
    """Its threads as py-spy prints them, without pids and numbers of threads."""


class NoStack(Model, frozen=True, kw_only=True):
    """A rank without a stack."""

    rank: int
    why: str


class Stacks(Model, frozen=True, kw_only=True):
    """Where ranks of a job stand."""

    job: str
    attempt: int
    stacks: list[Stack]
    """What most ranks show first."""
    missing: list[NoStack]


class Line(Model, frozen=True, kw_only=True):
    """One thing that was seen or decided."""

    sequence: int
    """Of the journal entry."""
    at: str
    """Time of day in UTC, for people."""
    text: str
    seen: bool
    """Somebody saw it; else it was decided."""
    source: str
    """Who saw it; empty where the driver itself did."""
    verdict: str
    """What follows from it, where something does."""
    cause: int | None
    """The entry that led to it; null where the outside did."""
    incident: int | None


class Story(Model, frozen=True, kw_only=True):
    """All decisions about a job, each with its reason, in order."""

    job: str
    earlier: bool
    """Another job had its name before."""
    lines: list[Line]


class Hypothesis(Model, frozen=True, kw_only=True):
    """One thing that may be behind a fault."""

    hypothesis: str
    """blind (the driver does not see), pause, passing, restore-point, link, node, version, group
    (one of the job's nodes, nobody knows which), or user."""
    open: bool
    """It may be that; else it is closed."""
    why: str
    """It is open, or closed, in a clause."""
    act: str | None
    """What would be done about it: wait, restart, swap, move-warm, exam, move-cold, replace,
    step-back, version-before, exam-all or give-up; null where it is closed."""
    cost_s: float | None
    """Seconds that this costs, about; null where it is closed."""
    chosen: bool
    """It is what was acted on."""


class Why(Model, frozen=True, kw_only=True):
    """The answer to `why`: a headline, what led there, and what to type next."""

    subject: str
    headline: str
    """State and reason, in one line."""
    details: list[str]
    """What belongs to the reason, such as why each node is not to be had."""
    lines: list[Line]
    exception: str
    """The user's own traceback, whole, where that was it; to be shown first."""
    hypotheses: list[Hypothesis]
    """What may have been behind the last fault of its last incident."""
    origin: str
    """Where the cause of that incident comes from, how sure that is, and by what; else empty."""
    mind: str
    """What would change the driver's mind about a node that is out, or doubted; else empty."""
    fix: str
    """What to type next."""


class BadNode(Model, frozen=True, kw_only=True):
    """A node against which something is held."""

    node: str
    suspicion: float
    """One for each accuser, half as much after 7 days, half once tests have found nothing since."""
    accused_by: list[str]
    """Versions of jobs (`speech-7b v2`) and people, the latest last."""
    strikes: int
    """Faults that were put down to it within 7 days."""
    tests: int
    """That found nothing within 7 days."""
    state: str


class BadLink(Model, frozen=True, kw_only=True):
    """A way from one node to another over which the second could not be reached."""

    source: str
    target: str
    suspicion: float
    """One for each accuser, half as much after a day."""
    convicted: bool
    """By tests that each of the two passed with others."""
    accused_by: list[str]
    """Versions of jobs (`speech-7b v2`) that could not use it, and people, the latest last."""
    ago_s: float
    """Since it was told last."""


class BadVersion(Model, frozen=True, kw_only=True):
    """A version of a job that had faults within 7 days."""

    job: str
    version: int
    faults: int
    ago_s: float
    """Since the last of them."""


class BadStore(Model, frozen=True, kw_only=True):
    """A store of which jobs told within 7 days that checkpoints do not reach it."""

    url: str
    jobs: list[str]
    """For which it fails still; none: for all of them it works again."""
    ago_s: float
    """Since the last word about it."""


class Outage(Model, frozen=True, kw_only=True):
    """What many nodes showed at once, within 7 days: nobody was accused for it."""

    what: str
    over: bool
    ago_s: float


class Worst(Model, frozen=True, kw_only=True):
    """What the driver holds against whom; each list has the worst first."""

    nodes: list[BadNode]
    links: list[BadLink]
    versions: list[BadVersion]
    stores: list[BadStore]
    cluster: list[Outage]


class Cost(Model, frozen=True, kw_only=True):
    """What an incident cost."""

    id: int
    kind: str
    summary: str
    """Empty where the incident is kept no longer."""
    node: str
    """The one that it names; empty where it names none."""
    begin_s: float
    """Driver time at which it began to cost."""
    lost_s: float
    buckets_s: dict[str, float]
    """They add up to `lost_s`."""


class Goodput(Model, frozen=True, kw_only=True):
    """Where each second of a job went."""

    job: str
    wall_s: float
    """From its submission to its end, or to now."""
    ettr: float | None
    """Effective training time ratio: kept training by the time in which it was to run, at least so
    much where some is not known; null before there was any."""
    lost_s: float
    buckets_s: dict[str, float]
    """Seconds by what they were spent on, which add up to `wall_s`; those that had any."""
    incidents: list[Cost]
    by_kind_s: dict[str, float]
    """Lost by cause: the kind of incident, `first start`, or `no fault`; adds up to `lost_s`."""
    not_known: list[str]
    """What is not known of it, in sentences."""


class Share(Model, frozen=True, kw_only=True):
    """What a kind of fault, or a node, cost."""

    name: str
    lost_s: float
    incidents: int
    jobs: int


class FleetGoodput(Model, frozen=True, kw_only=True):
    """Where the time of all jobs went; while two run, there are two seconds in one."""

    window_s: float
    """How far back it looks."""
    jobs: int
    wall_s: float
    ettr: float | None
    """As of one job."""
    lost_s: float
    buckets_s: dict[str, float]
    """They add up to `wall_s`."""
    by_kind: list[Share]
    """The costliest first; `first start` and `no fault` are no incidents."""
    by_node: list[Share]
    """Nodes that incidents name, the costliest first."""
    not_known: list[str]


class Node(Model, frozen=True, kw_only=True):
    """A node as the driver knows it."""

    name: str
    state: str
    """free, held, in test (a job's own, being tested), maintenance (kept free, for somebody gave
    notice), closed (the cluster gives it no new work), quarantined, gone, or unknown: there without
    its executor, where nodes have one before they have a job, or connected under a name that the
    cluster does not have."""
    rack: str
    address: str
    job: str | None
    ranks: list[int]
    standby: bool
    present: bool
    connected: bool
    at_rest: bool
    """Nothing is wanted of it; what its last job left is ended, and stored or given up."""
    reason: str
    """Of the quarantine, of the notice that it is to be free, of the test that it is in, or why it
    is left out for a while."""
    free_by_s: float | None
    """Driver time by which it has to be free; null where it need not, or at leisure."""
    incident: int | None
    on_trial: bool
    """It is quarantined, and being tested: where it passes it is used again."""
    next_trial_s: float | None
    """Driver time of its next tests, at the earliest; null where none comes by itself."""
    strikes: int
    """Faults that were put down to it within 7 days."""
    unreadable: tuple[str, ...] = ()
    """What its daemon cannot read of it now, each with the reason: nothing is known of that."""


class NodeList(Model, frozen=True, kw_only=True):
    """An answer."""

    items: list[Node]


class Measurement(Model, frozen=True, kw_only=True):
    """One test that one node ran."""

    node: str
    test: str
    stage: int
    round: int
    members: list[str]
    """Who ran it together; none where the node ran it alone."""
    passed: bool | None
    """null where it says nothing."""
    value: float | None
    unit: str
    least: float
    """What passes; 0 where every value does."""
    detail: str


class Diagnosis(Model, frozen=True, kw_only=True):
    """What a person asked of nodes, and what came of it so far."""

    number: int
    state: str
    """testing, or ended."""
    nodes: list[str]
    left_out: dict[str, str]
    """Nodes that could not be tested, with why."""
    stage: int
    testing: list[str]
    """Who has not told its results of this stage yet."""
    bad: dict[str, str]
    """Node to the part of it that is bad: compute, memory, bus, disk, clock, link or node."""
    good: list[str]
    undecided: list[str]
    """Neither good nor bad, as far as is known: also who has left, or was never judged."""
    apart: list[list[str]]
    """Pairs that cannot reach each other, and neither of which is bad."""
    sides: list[list[str]]
    """Two, or none: who is well among themselves, and fails with those of the other one. Nobody of
    them is bad for that."""
    why: str
    """Where it ended early."""
    unknown: dict[str, str]
    """Undecided nodes, with why each is."""
    evidence: list[str]
    measurements: list[Measurement]


class Calibration(Model, frozen=True, kw_only=True):
    """What healthy nodes reached in one test."""

    test: str
    unit: str
    nodes: int
    """So many of them."""
    median: float
    spread: float
    """Of the logarithm of what they reached: .05 is about 5 %."""
    bound: float
    """A node that reaches less fails."""
    ago_s: float
    """How long ago."""
    asked: bool
    """Whether a person had it measured; else a diagnosis of healthy nodes told it, and the bound
    counts where fewer than five nodes are tested."""
    drift: float | None
    """By what share the median differs from that of the calibration before; null: there is none."""


class Calibrations(Model, frozen=True, kw_only=True):
    """All that is known of healthy nodes."""

    tests: list[Calibration]


class Brake(Model, frozen=True, kw_only=True):
    """Whether nodes are evicted by themselves."""

    on: bool
    """It is on: nobody is evicted but by people, until one of them releases it."""
    why: str
    """Why it was put on, or who released it last; empty where neither has been."""
    since_s: float
    """Driver time of that."""
    dry_run: bool
    """This driver only says what it would evict."""


class Evidence(Model, frozen=True, kw_only=True):
    """An answer."""

    source: str
    text: str


class Incident(Model, frozen=True, kw_only=True):
    """One cause and all that followed."""

    number: int
    kind: str
    blame: str
    origin: str
    """`user`, `framework`, `host`, `gpu`, `network`, `storage`, `external`: where it comes from by
    all that is known; empty where nothing tells."""
    sure: str
    """`sure`, `likely`, `not sure`: how sure that is."""
    origin_why: str
    """By what."""
    summary: str
    latest: str
    """Of the last fault that was put down to it; that of the incident where there was one."""
    jobs: list[str]
    node: str | None
    rank: int | None
    evicted: list[str]
    rung: int
    """Highest rung of the ladder that was needed; 0 where nothing was done."""
    faults: int
    """That were put down to this cause; 0 where it was only reported."""
    open: bool
    outcome: str
    found_s: float
    """Driver time."""
    stalled_s: float
    """How long it had lasted when it was found: of a standstill, since the last step or collective
    was done."""
    stages_s: dict[str, float]
    """Seconds that each stage of its last recovery took, in order."""
    recovered_s: float | None
    """Seconds from found to the first step never reached before, or to the next fault; null while
    there is neither."""
    overtaken: bool
    """The next fault came before that step, to each of its jobs."""
    down_s: float | None
    """The same, with what had passed before it was found: a standstill, a silence."""
    step: int | None
    """The lowest that all ranks went back to; null where they did not, where nobody sees from where
    a script goes on that saves by itself, or where it hit several jobs."""
    steps_lost: int | None
    """Completed before it and trained again, each counted once, over all jobs; at least so many
    where `step` is null; null where that is not known."""
    evidence: list[Evidence]
    hypotheses: list[Hypothesis]
    """What may have been behind its last fault, in the order in which that is tried; none is chosen
    where all are closed, and the ranks are started again as often as the budget allows."""
    stacks: dict[int, str]


class IncidentList(Model, frozen=True, kw_only=True):
    """An answer."""

    items: list[Incident]


class CostlyKind(Model, frozen=True, kw_only=True):
    """Faults of one kind."""

    kind: str
    incidents: int
    faults: int
    lost_s: float
    """Until jobs trained on; what has not come back yet counts nothing."""


class CostlyNode(Model, frozen=True, kw_only=True):
    """A node that had part in faults."""

    node: str
    incidents: int
    evicted: int
    lost_s: float


class Digest(Model, frozen=True, kw_only=True):
    """What happened in the last `since_s` seconds."""

    since_s: float
    submitted: int
    by_phase: dict[str, int]
    """Jobs that ran or ended in that time, by the phase that they have now."""
    faults: int
    lost_s: float
    """To all incidents, those that a person asked for among them."""
    steps_lost: int
    kinds: list[CostlyKind]
    """What cost most first."""
    nodes: list[CostlyNode]
    """At most ten, what cost most first."""
    open: list[int]
    """Numbers of the incidents that are not over."""
    goodput: FleetGoodput
    """Where the time of jobs went meanwhile; of a longer time than a quarter, in the last one."""
    whole: bool
    """No incident of that time may have been forgotten: the driver keeps the latest alone."""


class Webhook(Model, frozen=True, kw_only=True):
    """A receiver, without its address, which may be a secret."""

    name: str
    format: str
    """json or slack."""
    signed: bool
    sent: int
    """Since this driver leads."""
    given_up: int
    """That it did not take within a day, or refused."""
    behind: int
    """Entries of the journal that it was not yet asked about."""
    trouble: str
    """Why it did not take the last; empty where it did."""


class WebhookList(Model, frozen=True, kw_only=True):
    """An answer."""

    items: list[Webhook]


class Taken(Model, frozen=True, kw_only=True):
    """An example was taken."""

    name: str
    taken: bool


class Code(Model, frozen=True, kw_only=True):
    """A code for the page, to be shown to nobody else."""

    code: str
    """What follows `?code=` in any address of the page: it is good once, for one browser."""
    path: str
    """The page with it."""
    within_s: float
    """Seconds for which it is good."""


class Ready(Model, frozen=True, kw_only=True):
    """Whether new work is taken."""

    ready: bool
    why: str
    """Why not, or what keeps taken work waiting; empty where all is well."""
    stale: bool = False
    """Nothing can be written down now, so that nothing is decided: what is told may be old."""
