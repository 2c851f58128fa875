"""What speaks for or against a machine, a link, a version, a restore point: one book of facts.

Noted by the machines of the core, read by `evidence`. Pure. A fact is kept with whom it concerns:
a node's with the node, those of a job's faults with the job. It is never changed: what is passed,
void or too old is left out by who reads it, and dropped when it says nothing any more.
"""

from enum import StrEnum

from holdfast.driver.core.state.value import Value


class Bearing(StrEnum):
    """What a fact is for its subject."""

    CONVICTS = "convicts"  # explicit hardware evidence, or two tests that failed beside others
    ACCUSES = "accuses"  # faults stand out there
    ACQUITS = "acquits"  # a test found nothing, or the fault followed the job elsewhere
    CONTEXT = "context"  # it was there when something went wrong, as others were


class Hypothesis(StrEnum):
    """What may be behind a fault."""

    BLIND = "blind"  # it is the driver that does not see
    PAUSE = "pause"  # the script takes its time there
    PASSING = "passing"  # nothing that is still there
    POINT = "restore point"  # what the ranks started from
    LINK = "link"  # between two nodes
    NODE = "node"
    VERSION = "version"  # of the job: one before it ran well
    GROUP = "group"  # one of the job's nodes, nobody knows which
    USER = "the script"  # its code, its data or its memory


class FaultClass(StrEnum):
    """Who told of a fault, which says what may be behind it."""

    SAID = "said"  # the script itself: an exception, an exit code, its memory
    DIED = "died"  # nobody: a signal, ranks that do not run
    STOOD = "stood"  # ranks run, and nothing gets on


class OfNode(Value, frozen=True, tag="node"):
    """A machine by its name, and which one has the name: facts of another one are void."""

    name: str
    machine: str = ""


class OfLink(Value, frozen=True, tag="link"):
    """The way from one node to another."""

    source: str
    target: str


class OfVersion(Value, frozen=True, tag="version"):
    """What a job runs."""

    job: str
    number: int


class OfPoint(Value, frozen=True, tag="point"):
    """What ranks start from."""

    job: str
    step: int
    epoch: int


class OfStore(Value, frozen=True, tag="store"):
    """Where a job's checkpoints go."""

    job: str


class OfCluster(Value, frozen=True, tag="cluster"):
    """All of it."""


Subject = OfNode | OfLink | OfVersion | OfPoint | OfStore | OfCluster


class Site(Value, frozen=True):
    """How a rank ended or stood still, and where in its training."""

    words: str
    step: int | None = None  # that was completed, where that is known
    fresh: bool = False  # none was since its start

    def same(self, other: "Site | None") -> bool:
        """The same words, and the same step or none since a start."""
        if other is None or self.words != other.words:
            return False
        return self.step == other.step or (self.fresh and other.fresh)


class About(Value, frozen=True):
    """Of what a fact was told."""

    job: str = ""
    version: int = 0
    attempt: int = 0
    node: OfNode | None = None
    place: int | None = None  # of the job's
    rank: int | None = None
    step: int | None = None
    site: Site | None = None


class Fact(Value, frozen=True):
    """One observation."""

    subject: Subject
    what: str  # a kind of fault, a test, a person's words
    bearing: Bearing
    at_s: float
    source: str = ""  # who saw it
    about: About = About()
    fault: FaultClass | None = None  # where it is one
    held_for: Hypothesis | None = None  # what was done about it went by this
    entry: int = 0  # of the journal
