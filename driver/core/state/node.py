"""A machine of the cluster as the driver knows it: four facets, each in one state at a time.

Which ways there are between the states of a facet is in `edges`, whether a node may be used for
something in `fit`. Nothing else decides either. Seconds are those of the driver's own clock.
"""

from collections.abc import Iterator
from enum import StrEnum

from holdfast.driver.core.state.fact import Fact, OfNode
from holdfast.driver.core.state.value import Value
from holdfast.protocol.messages import RankStatus, Snapshot, Stored

# ---------------------------------------------------------------- presence: moved by the cluster


class Unknown(Value, frozen=True, tag="unknown"):
    """The cluster has never had it: an executor connected under this name, and is not believed."""


class Here(Value, frozen=True, tag="here"):
    """The cluster says that it is there."""


class Gone(Value, frozen=True, tag="gone"):
    """The cluster says that it is not there."""

    since_s: float | None = None  # None: it has never been


Presence = Unknown | Here | Gone

# ---------------------------------------------------------------- link: moved by its executor


class Never(Value, frozen=True, tag="never"):
    """No executor of it was ever connected."""


class Awaited(Value, frozen=True, tag="awaited"):
    """Its executor was connected to the driver before this one."""

    incarnation: str
    address: str
    check_s: float | None = None  # when its silence is looked at; None: nobody waits for it


class Connected(Value, frozen=True, tag="connected"):
    """Its executor has a connection to this driver."""

    incarnation: str
    address: str


class Broken(Value, frozen=True, tag="broken"):
    """Its connection ended while this driver was there, which is a source of its own."""

    incarnation: str
    address: str
    check_s: float | None = None  # as of `Awaited`
    since_s: float = 0.0  # when it ended


Link = Never | Awaited | Connected | Broken

# ---------------------------------------------------------------- holding: who has it


class Exited(Value, frozen=True):
    """The end of a rank in the current epoch, in order of arrival."""

    node: str
    status: RankStatus
    step: int | None = None
    saved: int = 0  # steps that its script was seen to save, where they count from its start
    at: int = 0  # sequence of the entry that told of it


class Quiet(Value, frozen=True):
    """A node has no rank older than `epoch`, and holds this."""

    epoch: int = 0
    killed: tuple[int, ...] = ()  # ranks that had not ended when their grace was over
    snapshots: tuple[Snapshot, ...] = ()
    peer_port: int = 0  # where its agent takes copies of snapshots, and gives them
    stored: tuple[Stored, ...] = ()  # found so far
    looking: str = ""  # why it is not known yet what else the store holds
    preparing: str = ""  # what its store of the epoch has to wait for
    warming: bool = False  # it still imports what ranks need
    damaged: tuple[Stored, ...] = ()  # in the store, and not to be believed
    store_error: str = ""
    agent_silent: str = ""  # what its checkpoint agent was asked, and does not answer


class Free(Value, frozen=True, tag="free"):
    """Nobody has it. `forget`: a finished job whose snapshots it drops, until it has another."""

    forget: str | None = None


class Promised(Value, frozen=True, tag="promised"):
    """The cluster was asked to give it to the job. Its executor may be there before."""

    job: str
    by_s: float = 0.0  # when its executor has to be there
    quiet: Quiet | None = None  # as of `Held`


class Held(Value, frozen=True, tag="held"):
    """The cluster gave it to the job. What is known of it as a part of the job goes with it."""

    job: str
    by_s: float = 0.0  # as of `Promised`; later where its executor was there, and has to return
    came: bool = False  # its executor was there since
    ending: bool = False  # it may still have ranks of an older epoch
    quiet: Quiet | None = None  # what it told last, once it had none
    tested: bool | None = None  # as a standby: whether that told anything; None: not yet
    ran: int = 0  # newest epoch of whose ranks it said that they have all started
    exited: int = 0  # newest epoch of whose ranks it said that some have ended
    exits: tuple[Exited, ...] = ()  # in that epoch
    renewed_s: float | None = None  # when a new executor took its ranks for dead, unexplained
    starved_s: float | None = None  # when the cluster said that one was killed for memory


class Lent(Value, frozen=True, tag="lent"):
    """It is tested alone, and no job has it."""


class Returning(Value, frozen=True, tag="returning"):
    """The cluster was asked to take it back. `forget`: as of `Free`."""

    forget: str | None = None


Holding = Free | Promised | Held | Lent | Returning

# ---------------------------------------------------------------- trust: moved by what is proved


class ExamSetup(Value, frozen=True):
    """What an evicted node is tested with: what the job had that it was evicted from."""

    job: str
    spec: bytes = b""  # the job's, whole, for the cluster; the core never looks inside
    node_class: dict[str, float] = {}  # as of the job's plan, and what it was measured against
    diagnose_s: float = 60.0


class Trusted(Value, frozen=True, tag="trusted"):
    """It may be used. `unmark`: the cluster has not taken its mark off yet."""

    unmark: bool = False


class Suspect(Value, frozen=True, tag="suspect"):
    """A fault named it, and its job goes on without it: not used before its tests are over."""

    why: str
    setup: ExamSetup
    exam_s: float  # when it is to be tested
    tries: int = 0  # of exams that could not be held
    after: tuple[str, ...] = ()  # exams of others, of which one has to end first
    beside: tuple[str, ...] | None = None  # nothing but tests with these speaks against it


class Quarantined(Value, frozen=True, tag="quarantined"):
    """It was evicted, and is not used until it passes its tests or a person restores it."""

    why: str
    incident: int | None = None
    by_person: bool = False  # who alone restores it
    marked: bool = False  # the cluster took note
    setup: ExamSetup | None = None  # None: nothing is known to test it with
    exam_s: float | None = None  # when it may be tested; None: never by itself


Trust = Trusted | Suspect | Quarantined

# ---------------------------------------------------------------- beside the facets


class Source(StrEnum):
    """Who has something against the use of a node, which says when that is over."""

    PERSON = "person"  # over when a person restores the node
    DRAIN = "drain"  # the cluster is to have it free: over when the cluster says so
    EXECUTOR = "executor"  # only the executor has to go: over when the node is given back
    CORDON = "cordon"  # the cluster wants no new work there: over when the cluster says so
    REST = "rest"  # it failed lately, without proof against it: over after a while


NOTICES = (Source.PERSON, Source.DRAIN, Source.EXECUTOR)
"""Who wants a node free: what it has moves."""


class Against(Value, frozen=True):
    """Why a node gets no new work. It is no evidence against it."""

    why: str
    until_s: float | None = None  # over by itself; None: see its source
    by_s: float | None = None  # a notice: it has to be free by then; None: once nothing is lost
    returns: bool = False  # a notice: a new executor may come to the same node at once


class Fencing(Value, frozen=True):
    """What only grows: newer is told from older by it."""

    generation: int = 0  # of the newest desired state that was ordered
    epoch: int = 0  # newest epoch that it was told
    called: int = 0  # entry that ordered the newest allocation or release: older outcomes are late


class Record(Value, frozen=True):
    """What was counted against a node, and for it, lately. Nothing here bars it."""

    facts: tuple[Fact, ...] = ()  # the latest last
    cleared: int = 0  # so often people said that nothing is wrong with it any more
    evicted_s: float | None = None  # the last time, until a person restores it
    silenced: bool = False  # evicted for silence alone
    exam_wait_s: float = 0.0  # how long it waited for its tests the last time, or waits


class Backoff(Value, frozen=True):
    """Of whom a defect of ours was met in his affairs: how long he was left alone the last time."""

    until_s: float
    wait_s: float


class Node(Value, frozen=True):
    """One machine. Each facet is changed by a function of `Turn`, along its ways in `edges`."""

    name: str
    rack: str = ""
    machine: str = ""  # which one has the name; "" where the cluster cannot say
    former: tuple[str, ...] = ()  # machines that had it before, the latest last
    presence: Presence = Unknown()
    link: Link = Never()
    holding: Holding = Free()
    trust: Trust = Trusted()
    against: dict[Source, Against] = {}  # at most one reason a source
    told: Fencing = Fencing()
    exam: str | None = None  # that it takes part in
    record: Record = Record()
    retry_s: float | None = None  # when a failed call to the cluster is made again
    backoff: Backoff | None = None  # after a defect of ours: what was due of it is put off

    @property
    def subject(self) -> OfNode:
        """It as it is now: a fact of another machine, or of before people cleared it, is void."""
        return OfNode(name=self.name, machine=self.machine, cleared=self.record.cleared)

    @property
    def present(self) -> bool:
        return isinstance(self.presence, Here)

    @property
    def stranger(self) -> bool:
        """It connected, and the cluster has never had it: kept no longer than it is connected."""
        return isinstance(self.presence, Unknown)

    @property
    def gone_s(self) -> float | None:
        return self.presence.since_s if isinstance(self.presence, Gone) else None

    @property
    def connected(self) -> bool:
        return isinstance(self.link, Connected)

    @property
    def incarnation(self) -> str:
        """Of the executor that connected last; "" where none ever was."""
        return "" if isinstance(self.link, Never) else self.link.incarnation

    @property
    def address(self) -> str:
        return "" if isinstance(self.link, Never) else self.link.address

    @property
    def silent_check_s(self) -> float | None:
        """When its silence is looked at (again); None where nobody waits for it."""
        return self.link.check_s if isinstance(self.link, (Awaited, Broken)) else None

    @property
    def job(self) -> str | None:
        """Who has it, or is to have it."""
        return self.holding.job if isinstance(self.holding, (Promised, Held)) else None

    @property
    def held(self) -> Held | None:
        """What it is as a part of its job, once the cluster gave it."""
        return self.holding if isinstance(self.holding, Held) else None

    @property
    def allocated(self) -> bool:
        return isinstance(self.holding, Held)

    def quiet_in(self, epoch: int) -> Quiet | None:
        """What it told its job in this epoch, having no older rank; None: it may have some."""
        told = self.holding.quiet if isinstance(self.holding, Promised | Held) else None
        return told if told is not None and told.epoch == epoch else None

    @property
    def releasing(self) -> bool:
        return isinstance(self.holding, Returning)

    @property
    def forget(self) -> str | None:
        return self.holding.forget if isinstance(self.holding, (Free, Returning)) else None

    @property
    def quarantine(self) -> Quarantined | None:
        return self.trust if isinstance(self.trust, Quarantined) else None

    @property
    def quarantined(self) -> bool:
        return isinstance(self.trust, Quarantined)

    def notices(self) -> Iterator[Against]:
        """Why it is to be free, a person's reason first."""
        return (self.against[source] for source in NOTICES if source in self.against)

    @property
    def notice(self) -> Against | None:
        """The one that is told of."""
        return next(self.notices(), None)
