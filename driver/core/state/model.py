"""What the driver knows: cluster, jobs and incidents as frozen values, and nothing that can act.

Read by the machines of the core, REST, the command line and the simulator; changed only by
`decide`. Seconds are those of the driver's own clock, kept across restarts. Each commit writes what
it changed.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import field

from holdfast.diagnostics.figures import Figure
from holdfast.diagnostics.stages import Stage
from holdfast.diagnostics.thresholds import Known
from holdfast.diagnostics.verdict import Verdict
from holdfast.driver.core.events import Plan, Reached
from holdfast.driver.core.state.fact import Fact, OfVersion, Table
from holdfast.driver.core.state.layout import Layout
from holdfast.driver.core.state.node import Backoff, Exited, Node
from holdfast.driver.core.state.restore_point import RestorePoint, Tainted
from holdfast.driver.core.state.value import Value
from holdfast.driver.core.state.versions import Version
from holdfast.protocol.faults import Blame, Evidence, Kind, Pause, Rung, Weight
from holdfast.protocol.messages import DiagnosticOrder, DiagnosticResult, Rendezvous, Seat, Stored


class Phase(StrEnum):
    """Where a job is in its life. The legal ways between them are in `transitions`."""

    PENDING = "Pending"
    ALLOCATING = "Allocating"
    STARTING = "Starting"
    RUNNING = "Running"
    SUSPENDING = "Suspending"
    DIAGNOSING = "Diagnosing"
    REPLACING = "Replacing"
    RESTORING = "Restoring"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"


FINISHED = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED})
"""Phases that a job never leaves."""


class Wanted(StrEnum):
    """What people want of a job."""

    RUN = "run"
    SUSPEND = "suspend"
    STOP = "stop"
    DELETE = "delete"


class Timer(StrEnum):
    """Deadlines of a job, by what they are for."""

    GATHER = "gather"  # exits that came together are judged
    DOUBT = "doubt"  # echoes are judged, though a node that may be their cause is still away
    CONNECT = "connect"  # executors that were allocated have to be there
    STACKS = "stacks"  # stacks have to be taken before ranks are ended
    QUIET = "quiet"  # old ranks have to be gone
    STORE = "store"  # the epoch's rendezvous has to listen, the checkpoints to be readable
    START = "start"  # all ranks have to run
    SETTLE = "settle"  # ran so long that the recovery counts, seen or not
    MOVE = "move"  # a node that is to be free has to be left now, another there or not
    SAVE = "save"  # the last step has to be in the store
    SAVE_FAILS = "save-fails"  # the store that it has to be in has to work again
    HOLD = "hold"  # waited so long for a node that other jobs may have ours
    DEADLINE = "deadline"  # the job's own
    TTL = "ttl"  # a finished job is dropped


class Unfit(Value, frozen=True):
    """A node, or any, that could not run a job as that job is: not asked for before `until_s`."""

    until_s: float
    why: str


class Tried(Value, frozen=True):
    """A job had to do without a node that was free for it."""

    at: int  # entry, the last time
    waits: int = 0  # times that it waited for it, holding others, in vain


class Saving(Value, frozen=True):
    """How far the last step is on its way to the store."""

    until_s: float  # no longer than this, however it gets on
    taken_bytes: int = 0


class Tally(Value, frozen=True):
    """Of the current epoch of a job: how many nodes said what, and how many ranks ended."""

    ending: int = 0  # nodes that may still have ranks of an older epoch
    quiet: int = 0  # nodes and standbys that have none
    running: int = 0  # nodes
    ended: int = 0
    failed: int = 0  # of these
    causes: int = 0  # of these, those that no death of a peer explains
    plain: int = 0  # of these, those that were not aborted, as gloo does to who hears of another
    saved: bool = False  # scripts that count steps from their start were seen to save


class Attempt(Value, frozen=True):
    """An epoch that had ranks, what they ran and how they lay. What they saved counts up to `end`;
    None: it is the newest.
    """

    epoch: int
    first: int | None = None  # of epochs that were lost with the journal, any of which it may be
    number: int = 0  # of the job's attempts; 0 where that is not known
    version: int = 1
    layout: int = 0  # its number; 0 where that is not known
    incident: int | None = None  # of which it is the end, or a step towards it
    end: int | None = None

    def has(self, epoch: int) -> bool:
        return (self.epoch if self.first is None else self.first) <= epoch <= self.epoch


class Signature(Value, frozen=True):
    """What ends of ranks share that are the same, see `crash_signature`."""

    how: str  # signal or exit code, the script's line, the words without numbers
    step: int  # that the rank had completed, as it counts them
    relative: bool = False  # it counts them from its own start
    unread: bool = False  # the script, or what it imports, is no Python
    outside: bool = False  # of a signal that somebody else sent, or of an exit code that says so


class Fault(Value, frozen=True):
    """Something that a job has to recover from; `node` and `rank` are the root's."""

    kind: Kind
    weight: Weight
    summary: str
    blame: Blame = Blame.UNKNOWN
    signs: tuple[str, ...] = ()  # what it shows, by which it is said whose it is
    node: str | None = None
    rank: int | None = None
    place: str | None = None  # of nobody's: the one node where it showed, with nothing against that
    step: int | None = None
    stalled_s: float = 0.0  # how long it had lasted when it was found
    evidence: tuple[Evidence, ...] = ()
    traceback: str = ""
    silent: bool = False  # there is no evidence but silence
    asked: bool = False  # a person wants the node out: no brake
    spared: bool = False  # nothing is held against the node
    spot: str = ""  # where in the script it stood still
    fix: str = ""  # which option would have let it go on
    sound: int | None = None  # of a bad loss: the last step whose state is surely not of it
    stuck: bool = False  # of a standstill: nobody works on anything, all wait
    doubt: str = ""  # why it may be no fault, and will be over by itself
    waits_s: float | None = None  # since when it is waited for the driver to see
    apart: tuple[str, ...] = ()  # two nodes that are not to be seated together
    one_way: bool = False  # only the first of them told that it cannot reach the other
    own: bool = False  # a rank died of a signal that it brought upon itself
    signature: Signature | None = field(default=None, name="mark")  # None: it says nothing

    @property
    def convicts(self) -> bool:
        """It is plain evidence against a node."""
        return self.weight is Weight.CONCLUSIVE and self.node is not None


class Purpose(StrEnum):
    """Who wants an exam of nodes, which says what follows from it."""

    DIAGNOSIS = "diagnosis"  # a job whose ranks have ended wants to know which node it was
    REQUALIFICATION = "requalification"  # an evicted node is to be used again
    SUSPICION = "suspicion"  # a node that a fault named, and that its job goes on without
    STANDBY = "standby"  # a node that stands by is to be known as good
    ASKED = "asked"  # a person wants to know


class Asked(Value, frozen=True):
    """What a person asked of nodes, and what came of it."""

    number: int  # of the entry in which it was
    nodes: tuple[str, ...]
    left_out: dict[str, str] = {}  # nodes that could not be tested, and why
    known: Known = Known()  # what had to be reached as they asked, however that changes later
    stages: tuple[Stage, ...] = ()  # those that are over
    verdict: Verdict | None = None  # once all are; it is kept for a while, for who asked
    why: str = ""  # where it ended early


class Exam(Value, frozen=True):
    """Tests of nodes under way, until `until_s` at the latest."""

    id: str
    purpose: Purpose
    until_s: float
    orders: dict[str, tuple[DiagnosticOrder, ...]]  # by node: those in question, and who helps
    suspects: tuple[str, ...]  # those in question
    accused: tuple[str, ...] = ()  # of these, whom something but this exam speaks against
    second: bool = False  # those in question have failed one before: no third one follows
    results: dict[str, tuple[DiagnosticResult, ...]] = {}
    job: str | None = None  # for which
    asked: Asked | None = None  # where a person wants to know


class Failure(Value, frozen=True):
    """Why a job was given up. The user's own traceback comes first, whole."""

    traceback: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return "\n".join(part for part in (self.traceback.rstrip(), self.reason) if part)


class Job(Value, frozen=True):
    """A training job."""

    name: str
    versions: tuple[Version, ...]  # of its plan, the newest last
    layout: Layout  # its ranks on the nodes that it has now; while they run, that of their attempt
    phase: Phase
    number: int  # sequence of the entry that submitted it: its place in the queue
    submitted_s: float
    since_s: float  # in this phase
    wanted: Wanted = Wanted.RUN
    ends: Phase | None = None  # as what, once its last step is saved: Succeeded or Failed
    why: str = ""  # the last decision, in a sentence
    waiting: str = ""  # what it waits for, if it does
    parked: str = ""  # why the driver leaves it alone for now: a defect of ours
    backoff: Backoff | None = None  # until when, and of the last time where it is not parked now
    failure: Failure | None = None
    vacant: int = 0  # how many of its places have no node: see `Turn.places`
    standbys: tuple[str, ...] = ()
    failed_standbys: int = 0  # that failed their self-tests one after another
    leaving: tuple[str, ...] = ()  # of its places, those that are to be free
    swaps: str = ""  # of its places, the one that is to be another one of them
    epoch: int = 0
    attempt: int = 0
    stop: str = "kill"  # how ranks of the epoch before this one end
    rendezvous_host: str = field(default="", name="store_host")  # host when the epoch was opened
    save: Stored | None = None  # goes from memory to the store first; of who is over: did not
    saving: Saving | None = None  # how it gets on
    rendezvous: Rendezvous | None = None
    seats: tuple[Seat, ...] = ()  # the rank table, once ranks may run in this epoch
    restore: RestorePoint | None = None  # what the seated ranks started from
    tally: Tally = Tally()  # see `tally`: what each node told is in its own value
    failed_s: float | None = None  # when the first bad end of a rank of the epoch was heard of
    exits: tuple[Exited, ...] = ()  # of a finished job: those that tell why
    unlike: Fault | None = None  # ranks of the epoch that were in different collectives
    ended: int = 0  # of a finished job of which not all exits are kept: how many there were
    held: Fault | None = None  # acted on once the stacks of the stuck ranks are taken
    progressed: bool = False  # this epoch went beyond all before it
    history: tuple[Attempt, ...] = ()
    points: tuple[RestorePoint, ...] = ()  # stored or tainted: see `restore_step`; newest last
    spoiled: Tainted | None = field(default=None, name="unsound")  # what is saved after that step
    granted: int | None = None  # a person's word: ranks start from this step, 0 is the beginning
    unsure_s: float | None = None  # since when it is held back by what the store may hold
    best_step: int | None = None  # highest step known to be completed by all ranks
    best_step_s: float | None = None  # median time of its fastest steps, as far as it was told
    pauses: dict[str, Pause] = {}  # that ended by themselves, by line
    reached: Reached | None = None  # how far it was when its ranks were ended, until others start
    unfit: dict[str, Unfit] = {}  # nodes that could not run it lately; other jobs may have them
    tried: dict[str, Tried] = {}  # nodes that it had to do without: others come first
    barred: Unfit | None = None  # why it would get no node at all, for a reason of its own
    suspects: tuple[str, ...] = ()  # nodes that have to pass their tests before ranks run again
    exam: str | None = None  # of its nodes, while they are diagnosed
    facts: tuple[Fact, ...] = ()  # its faults lately, the latest last
    incident: int | None = None  # the open one
    repeating: int | None = None  # one that is closed, of which it still does steps again
    timers: dict[Timer, float] = {}

    @property
    def version(self) -> Version:
        """The newest: what its next attempt runs."""
        return self.versions[-1]

    def ran_s(self, version: Version, now: float) -> float:
        """How long its ranks ran this version. A clock that was put back takes nothing away."""
        runs = self.phase is Phase.RUNNING and bool(self.history)
        runs = runs and self.history[-1].version == version.number
        return version.ran_s + (max(0.0, now - self.since_s) if runs else 0.0)

    @property
    def running(self) -> Version:
        """That of the attempt under way; while none is, the next one's."""
        number = self.history[-1].version if self.seated and self.history else None
        return next((each for each in self.versions if each.number == number), self.version)

    @property
    def subject(self) -> OfVersion:
        """Whom facts of what it runs concern."""
        return OfVersion(job=self.name, number=self.running.number)

    @property
    def plan(self) -> Plan:
        return self.version.plan

    @property
    def paid_s(self) -> float:
        """How long a restart that was paid counts at most."""
        return max(self.plan.user.window_s, self.plan.infrastructure.window_s)

    @property
    def places(self) -> tuple[str, ...]:
        """The node of each place, in rank order, "" while there is none."""
        return self.layout.places

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes that carry ranks, in rank order."""
        return tuple(filter(None, self.places))

    @property
    def members(self) -> tuple[str, ...]:
        """Everything it holds: nodes and standbys."""
        return self.nodes + self.standbys

    @property
    def seated(self) -> bool:
        """True once ranks may run in this epoch."""
        return bool(self.seats)

    @property
    def host(self) -> str:
        """The node that hosts the epoch's rendezvous: that of rank 0. "" while there is none."""
        return self.places[0] if self.places else ""

    @property
    def finished(self) -> bool:
        return self.phase in FINISHED

    @property
    def goes_on(self) -> bool:
        """People want it to run, and it has not come to its end."""
        return self.wanted is Wanted.RUN and self.ends is None

    @property
    def world_size(self) -> int:
        return self.layout.world_size


class Rollback(Value, frozen=True):
    """How far a job was before an incident, and the lowest step that it went back to."""

    before: int | None = None
    restored: int | None = None
    again: bool = False  # it was not yet as far as before an incident that came first
    unseen: bool = False  # its script had saved `restored`: nobody saw whether it went on from it

    @property
    def lost(self) -> int | None:
        if self.before is None or self.restored is None:
            return None
        return max(0, self.before - self.restored)


class Incident(Value, frozen=True):
    """One cause and all that followed. Times are of the slowest of its jobs, None: not reached."""

    id: int
    opened: int  # sequence of the entry that opened it
    kind: Kind
    blame: Blame
    found_s: float
    summary: str
    signs: tuple[str, ...] = ()  # of its cause, and what was seen of it since
    again_s: float | None = None  # when the last fault, or report, joined it
    stalled_s: float = 0.0  # how long the fault had lasted when it was found
    jobs: tuple[str, ...] = ()  # every job that it hit
    waiting: tuple[str, ...] = ()  # those not yet back
    node: str | None = None  # the culprit
    rank: int | None = None
    nodes: tuple[str, ...] = ()  # all that were involved
    evidence: tuple[Evidence, ...] = ()
    rung: Rung = Rung.NONE  # highest that was needed
    faults: int = 1  # that were put down to it; what was only reported is none
    table: Table | None = None  # what may be behind the last fault, and what was done by it
    evicted: tuple[str, ...] = ()
    anew_s: float | None = None  # its last fault, where ranks had run since the one before
    seen_s: float | None = None  # the first word of it; this and the next eight: since that
    suspended_s: float | None = None  # no earlier rank is left
    diagnosed_s: float | None = None
    replaced_s: float | None = None
    seated_s: float | None = None  # the rendezvous listens: ranks are ordered
    restored_s: float | None = None  # every rank runs
    grouped_s: float | None = None  # every rank has met the others
    loaded_s: float | None = None  # every rank has loaded its state
    stepped_s: float | None = None  # every rank has done a step, maybe one that was done before
    resumed_s: float | None = None  # a step that no epoch had reached before, or the next fault
    closed_s: float | None = None
    overtaken: bool = False  # the next fault came before that step, to each of its jobs
    outage: bool = False  # more nodes silent at once than may be evicted for it
    outcome: str = ""  # how it ended, in a sentence
    latest: str = ""  # the summary of the last fault that joined it
    rollbacks: dict[str, Rollback] = {}  # by job
    stacks: dict[int, str] = {}

    @property
    def open(self) -> bool:
        return self.closed_s is None

    @property
    def steps_lost(self) -> int | None:
        """Steps that were completed before it and had to be trained again, each counted once, over
        all jobs. None where that is not known of any."""
        known = [each.lost for each in self.rollbacks.values() if each.lost is not None]
        return sum(known) if known else None


class Brake(Value, frozen=True):
    """While it is `on` nobody is evicted but by people. `why`: it is so, and who says that."""

    on: bool = False
    why: str = ""
    at_s: float = 0.0  # when it was put on or released


class State(Value, frozen=True):
    """All that the driver must not forget."""

    sequence: int = 0  # of the journal entry that led here
    term: int = 0
    epoch: int = 0  # highest ever given out, over all jobs: executors refuse an older one
    fenced: int = 0  # newest term that has given an epoch
    incident_count: int = 0
    jobs: dict[str, Job] = {}
    nodes: Mapping[str, Node] = {}  # a dict, but within a batch of decisions: see `overlay`
    exams: dict[str, Exam] = {}
    facts: tuple[Fact, ...] = ()  # of links, stores and the cluster, each kind's latest last
    brake: Brake = Brake()
    figures: dict[str, Figure] = {}  # what healthy nodes reach, by test
    incidents: dict[int, Incident] = {}  # the open ones, and the latest of the rest
    returned_s: float = 0.0  # when an executor last came back to a driver that took over
    back_s: float | None = None  # when the driver last took over, or stood still until
