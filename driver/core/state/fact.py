"""What speaks for or against a machine, or is known of a job's faults: one book of facts.

Noted by the machines of the core, read by `evidence`. Pure. A fact is kept with whom it concerns:
a node's with the node, those of a job's faults and restore points with the job, all others with the
state. Who reads the book leaves out what is passed, void or too old; what says nothing any more is
dropped.
"""

from enum import StrEnum

from msgspec.structs import replace

from holdfast.driver.core.state.restore_point import Where
from holdfast.driver.core.state.value import Value
from holdfast.protocol.faults import Blame


class Bearing(StrEnum):
    """What a fact is for its subject."""

    CONVICTS = "convicts"  # explicit hardware evidence, or tests that failed beside others
    ACCUSES = "accuses"  # faults stand out there
    ACQUITS = "acquits"  # a test found nothing, or a person says so
    CONTEXT = "context"  # it was there when something went wrong, as others may have been


class Hypothesis(StrEnum):
    """What may be behind a fault."""

    BLIND = "blind"  # it is the driver that does not see
    PAUSE = "pause"  # the script takes its time there
    PASSING = "passing"  # nothing that is still there
    POINT = "restore-point"  # what the ranks started from
    LINK = "link"  # between two nodes
    NODE = "node"
    VERSION = "version"  # of the job: one before it ran well
    GROUP = "group"  # one of the job's nodes, nobody knows which
    USER = "user"  # the script's code, its data or its memory


class Act(StrEnum):
    """What can be done about a fault."""

    WAIT = "wait"
    RESTART = "restart"
    MOVE_WARM = "move-warm"  # a standby takes its place; the node is tested off the job, or free
    SWAP = "swap"  # its place and another one of the job change nodes: what is its own goes along
    EXAM = "exam"
    MOVE_COLD = "move-cold"
    REPLACE = "replace"
    STEP_BACK = "step-back"  # start from another restore point: an older one, or a copy
    VERSION_BEFORE = "version-before"
    EXAM_ALL = "exam-all"
    GIVE_UP = "give-up"


class FaultClass(StrEnum):
    """Who told of a fault, which says what may be behind it."""

    SAID = "said"  # the script itself: an exception, an exit code, its memory
    DIED = "died"  # nobody: a signal, ranks that do not run
    STOOD = "stood"  # ranks run, and nothing gets on
    FIGURES = "figures"  # ranks get on, and what they compute is no number


class OfNode(Value, frozen=True, tag="node"):
    """A machine by its name, and which one has the name: facts of another one are void."""

    name: str
    machine: str = ""
    cleared: int = 0  # so often people had cleared it before: facts of earlier are void, too


class OfVersion(Value, frozen=True, tag="version"):
    """What a job runs."""

    job: str
    number: int


class OfLink(Value, frozen=True, tag="link"):
    """The way from one machine to another; back it is another one."""

    source: OfNode
    target: OfNode


class OfPoint(Value, frozen=True, tag="point"):
    """A saved step of a job, as its restore points are named."""

    job: str
    step: int
    epoch: int
    where: Where


class OfStore(Value, frozen=True, tag="store"):
    """Where jobs keep their checkpoints: several may have one."""

    url: str


class OfCluster(Value, frozen=True, tag="cluster"):
    """All of it: what many nodes show at once."""


Subject = OfNode | OfVersion | OfLink | OfPoint | OfStore | OfCluster


class Site(Value, frozen=True):
    """How a rank ended or stood still, and where in its training."""

    words: str
    step: int | None = None  # that was completed, where that is known
    fresh: bool = False  # none was since its start
    relative: bool = False  # steps are counted from each start
    passed_s: float | None = None  # when the job first got further since

    def same(self, other: "Site | None") -> bool:
        """The same words, and the same step or none since a start."""
        if other is None or self.words != other.words:
            return False
        return self.step == other.step or (self.fresh and other.fresh)


class About(Value, frozen=True):
    """Of what a fact was told."""

    job: str = ""
    version: int = 0  # of the attempt that it was told of
    attempt: int = 0  # of the job's, where a fault was in it
    rank: int | None = None  # that was the fault's root
    node: OfNode | None = None
    assumed: bool = False  # nothing named the node: it is held to be the one of faults before
    place: int | None = None  # of the job's
    site: Site | None = None

    @property
    def named(self) -> OfNode | None:
        """The node, where something told which it was."""
        return None if self.assumed else self.node


class Fact(Value, frozen=True):
    """One observation."""

    subject: Subject
    what: str  # a kind of fault, a test, a person's words
    bearing: Bearing
    at_s: float = 0.0  # as it is added
    by: str = ""  # a person, where it is a person's word
    about: About = About()
    fault: FaultClass | None = None  # where it is one
    stood: bool = False  # a standstill at a place of the script that is known
    held_for: Hypothesis | None = None  # what was held to be behind it
    done: Act | None = None  # what was done about it
    payer: Blame | None = None  # from whose budget, where the job was restarted
    earned: bool = False  # it had got on well since the one before: no budget counts it
    entry: int = 0  # of the journal, as it is added


class Row(Value, frozen=True):
    """One hypothesis about a fault: open or closed, by what, and how it would be acted on."""

    hypothesis: Hypothesis
    open: bool
    why: str
    act: Act | None = None  # None where it is closed
    cost_s: float = 0.0


class Table(Value, frozen=True):
    """All hypotheses about a fault, in order, and which one is acted on: None where nothing is left
    open, and the job is restarted as long as its budget allows."""

    rows: tuple[Row, ...] = ()
    chosen: Hypothesis | None = None
    act: Act = Act.RESTART

    @property
    def why(self) -> str:
        """Of the row that is acted on; "" where nothing is open."""
        return next((row.why for row in self.rows if row.hypothesis is self.chosen), "")

    def done_instead(self, act: Act, why: str) -> "Table":
        """With this done about what was chosen, for what was to be done could not be."""
        rows = tuple(
            replace(row, act=act, why=f"{row.why}; {why}", cost_s=0.0)
            if row.hypothesis is self.chosen
            else row
            for row in self.rows
        )
        return replace(self, rows=rows, act=act)
