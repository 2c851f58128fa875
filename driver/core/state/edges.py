"""THE tables: every way of a job's phase and of a node's facets from one state to another, and when
it is taken in the world.

Checked by `Turn` at each change, drawn by `lab.lifecycle`. Must hold no condition: when a way is
taken is decided elsewhere, whether it exists is decided here.
"""

from collections.abc import Mapping
from operator import attrgetter, lt

from holdfast.driver.core.state import node as n
from holdfast.driver.core.state.model import Job, Phase
from holdfast.driver.core.state.node import Node
from holdfast.driver.core.state.value import Value

P = Phase


class IllegalTransition(Exception):
    """A machine wanted a way that does not exist: a defect of ours. The message has the story."""

    def __init__(self, job: Job, to: Phase, story: str) -> None:
        super().__init__(f"job {job.name}: {job.phase} -> {to} is not in the table.\n{story}")
        self.job = job.name


TRANSITIONS: dict[tuple[Phase, Phase], str] = {
    # ------------------------------------------------------------ getting nodes
    (P.PENDING, P.ALLOCATING): "enough free nodes are there",
    (P.PENDING, P.SUSPENDED): "a person suspends it before it had nodes",
    (P.PENDING, P.STOPPED): "a person stops it before it had nodes",
    (P.PENDING, P.FAILED): "its deadline passes before it had nodes",
    (P.ALLOCATING, P.STARTING): "every executor is connected",
    (P.ALLOCATING, P.PENDING): "a node went away and no other is free: it gives all of them back",
    (P.ALLOCATING, P.SUSPENDED): "a person suspends it before a rank ran",
    (P.ALLOCATING, P.STOPPED): "a person stops it before a rank ran",
    (P.ALLOCATING, P.FAILED): "its deadline passes while executors start",
    # ------------------------------------------------------------ the first start
    (P.STARTING, P.RUNNING): "every rank runs",
    (P.STARTING, P.SUSPENDING): "a rank dies or a node fails as it starts, or a person ends it",
    (P.STARTING, P.REPLACING): "a node is lost before its ranks were started",
    (P.STARTING, P.FAILED): "its budget is spent or its deadline passes as it starts",
    (P.STARTING, P.STOPPED): "a person stops it while it is parked",
    # ------------------------------------------------------------ training
    (P.RUNNING, P.SUSPENDING): "a fault, a person suspends or stops it, or it is over and saves",
    (P.RUNNING, P.SUCCEEDED): "every rank ended with exit code 0",
    (P.RUNNING, P.FAILED): "a fault was found and the budget is spent, or its deadline passes",
    (P.RUNNING, P.STOPPED): "a person stops it while it is parked",
    # ------------------------------------------------------------ ranks are being ended
    (P.SUSPENDING, P.DIAGNOSING): "no earlier rank is left and there are suspects to be tested",
    (P.SUSPENDING, P.REPLACING): "no earlier rank is left and a node is missing or on its way",
    (P.SUSPENDING, P.RESTORING): "no earlier rank is left and every place has its node",
    (P.SUSPENDING, P.SUSPENDED): "no earlier rank is left and a person wants it suspended",
    (P.SUSPENDING, P.STOPPED): "no earlier rank is left and a person wants it stopped",
    (P.SUSPENDING, P.SUCCEEDED): "every rank ended with exit code 0, and its last step is saved",
    (P.SUSPENDING, P.FAILED): "it is given up, and its last step is saved, or its deadline passes",
    # ------------------------------------------------------------ finding the bad node
    (P.DIAGNOSING, P.REPLACING): "the tests named a node, or one was lost meanwhile",
    (P.DIAGNOSING, P.RESTORING): "the tests found every node good",
    (P.DIAGNOSING, P.SUSPENDING): "a node is to be left, the next fault comes, or a person ends it",
    (P.DIAGNOSING, P.FAILED): "its budget is spent or its deadline passes meanwhile",
    (P.DIAGNOSING, P.STOPPED): "a person stops it while it is parked",
    # ------------------------------------------------------------ getting another node
    (P.REPLACING, P.RESTORING): "every place has its node again, and no earlier rank is left",
    (P.REPLACING, P.SUSPENDING): "the next fault comes, or a person ends it",
    (P.REPLACING, P.PENDING): "no node came for long and others wait: it gives its nodes back",
    (P.REPLACING, P.FAILED): "its budget is spent or its deadline passes meanwhile",
    (P.REPLACING, P.STOPPED): "a person stops it while it is parked",
    # ------------------------------------------------------------ coming back
    (P.RESTORING, P.RUNNING): "every rank runs, from the step that all agreed on",
    (P.RESTORING, P.SUSPENDING): "the next fault comes, or a person ends it",
    (P.RESTORING, P.REPLACING): "a node is lost before its ranks were started",
    (P.RESTORING, P.FAILED): "its budget is spent or its deadline passes meanwhile",
    (P.RESTORING, P.STOPPED): "a person stops it while it is parked",
    # ------------------------------------------------------------ set aside
    (P.SUSPENDED, P.PENDING): "a person resumes it",
    (P.SUSPENDED, P.STOPPED): "a person stops it",
    (P.SUSPENDED, P.FAILED): "its deadline passes while it is suspended",
}


def check_job(job: Job, to: Phase, story: str) -> None:
    """Raise `IllegalTransition` unless the job may go to `to`."""
    if (job.phase, to) not in TRANSITIONS:
        raise IllegalTransition(job, to, story)


Edges = Mapping[tuple[type[Value], type[Value]], str]

PRESENCE: Edges = {
    (n.Unknown, n.Here): "the cluster has it now: a stranger is known",
    (n.Here, n.Gone): "the cluster says that it is gone",
    (n.Gone, n.Here): "the cluster has it again",
}
LINK: Edges = {
    (n.Never, n.Connected): "its executor connects for the first time",
    (n.Awaited, n.Connected): "its executor comes back to the driver that took over",
    (n.Broken, n.Connected): "its executor comes back, or another one comes",
    (n.Connected, n.Connected): "another executor of it connects, or from another address",
    (n.Connected, n.Broken): "its connection ends",
    (n.Connected, n.Awaited): "a driver takes over",
    (n.Broken, n.Awaited): "a driver takes over while it is away",
    (n.Awaited, n.Awaited): "its silence is looked at later, or another driver takes over",
    (n.Broken, n.Broken): "its silence is looked at later, or by nobody",
}
HOLDING: Edges = {
    (n.Free, n.Promised): "a job is to have it, as a place or as a standby",
    (n.Free, n.Lent): "its tests begin",
    (n.Promised, n.Held): "the cluster gave it to the job",
    (n.Promised, n.Promised): "the driver stood still: its executor has so much longer",
    (n.Promised, n.Returning): "the job does without it before it came",
    (n.Held, n.Held): "more is known of it as a part of the job",
    (n.Held, n.Returning): "the job leaves it, or ends",
    (n.Lent, n.Returning): "its tests are over",
    (n.Returning, n.Free): "the cluster has taken it back",
}
TRUST: Edges = {
    (n.Trusted, n.Suspect): "a fault or its tests alone speak against it, and its job leaves it",
    (n.Suspect, n.Suspect): "its tests could not be held, or say too little: they are held again",
    (n.Suspect, n.Trusted): "its tests find nothing, or cannot be held; or a person restores it",
    (n.Suspect, n.Quarantined): "its tests convict it, or it is evicted",
    (n.Trusted, n.Quarantined): "it is evicted",
    (n.Quarantined, n.Quarantined): "the mark, the next tests, or a person's word changes",
    (n.Quarantined, n.Trusted): "it passed its tests, or a person restores it",
    (n.Trusted, n.Trusted): "the cluster took its mark off",
}
FACETS: Mapping[str, Edges] = {
    "presence": PRESENCE,
    "link": LINK,
    "holding": HOLDING,
    "trust": TRUST,
}
GROW = ("generation", "epoch", "called")


class IllegalEdge(Exception):
    """A machine wanted a way that does not exist: a defect of ours."""

    def __init__(self, old: Node, facet: str, to: Value) -> None:
        before = type(getattr(old, facet)).__name__
        super().__init__(
            f"{facet} of {old.name}: {before} -> {type(to).__name__} is not in the table"
        )


_states, _grown = attrgetter(*FACETS), attrgetter(*GROW)


def check_node(old: Node, new: Node) -> None:
    """Raise `IllegalEdge` unless each facet that changed may change so."""
    for facet, before, after in zip(FACETS, _states(old), _states(new), strict=True):
        if before is after or (type(before), type(after)) in FACETS[facet] or before == after:
            continue
        raise IllegalEdge(old, facet, after)
    if old.told is not new.told and any(map(lt, _grown(new.told), _grown(old.told))):
        raise IllegalEdge(old, "told", new.told)
