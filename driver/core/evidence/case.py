"""One fault of a job as the choice of the next step sees it: the facts, what may be done, and what
that costs.

Made by `recovery` of a job and what is known of it, judged by `table`. Pure: nothing here knows of
nodes or clusters. Costs are in seconds, measured where they were, else assumed; they say how to act
on one hypothesis, never which.
"""

from collections.abc import Iterable, Mapping
from statistics import median

from holdfast.driver.core.evidence import same
from holdfast.driver.core.state.fact import Act, Fact, FaultClass, OfNode, Site
from holdfast.driver.core.state.model import Incident
from holdfast.driver.core.state.value import Value

DEFAULT_S = {
    Act.WAIT: 0.0,
    Act.RESTART: 5.0,
    Act.SWAP: 8.0,
    Act.MOVE_WARM: 15.0,
    Act.EXAM: 20.0,
    Act.MOVE_COLD: 135.0,
    Act.REPLACE: 15.0,
    Act.STEP_BACK: 300.0,
    Act.VERSION_BEFORE: 60.0,
    Act.EXAM_ALL: 40.0,
    Act.GIVE_UP: 0.0,
}
"""From the prototype behind second-pass.md ("Evidence"), but for a swap: a restart, and a step that
goes to the store first."""

LEAST = 3
"""Recoveries of one kind whose median is believed."""


def measured_s(incidents: Iterable[Incident]) -> dict[Act, float]:
    """The median time from a fault until its job was further than before, by what was done last."""
    took: dict[Act, list[float]] = {}
    for incident in incidents:
        if incident.table is not None and incident.resumed_s is not None:
            took.setdefault(incident.table.act, []).append(incident.resumed_s - incident.found_s)
    return {act: median(times) for act, times in took.items() if len(times) >= LEAST}


def cost_s(act: Act, measured: Mapping[Act, float]) -> float:
    """Of one act."""
    return measured.get(act, DEFAULT_S[act])


class Ways(Value, frozen=True):
    """What could be done now, and what each way costs in seconds, where that was measured."""

    acts: frozenset[Act] = frozenset({Act.RESTART, Act.GIVE_UP})
    cost_s: dict[Act, float] = {}

    def cost_of(self, act: Act) -> float:
        return cost_s(act, self.cost_s)

    def cheapest(self, *acts: Act) -> Act | None:
        """Of these, that may be done."""
        return min(self.acts & set(acts), key=lambda act: (self.cost_of(act), act), default=None)


class Case(Value, frozen=True):
    """A fault, `past` faults of the same class and version of the job, the oldest first, and what
    could be done."""

    now: float
    fault: FaultClass
    nodes: int  # of the job
    what: str = ""  # a kind of fault
    began_s: float | None = None  # when it had begun: a standstill is found later
    past: tuple[Fact, ...] = ()
    site: Site | None = None  # None: it says nothing of its place
    hang: bool = False
    node: OfNode | None = None  # that it names
    shown: bool = False  # it only showed there: nothing says that it is the node
    assumed: bool = False  # nor that it showed there: only faults before it did
    place: int | None = None  # of that node in the job
    soon: bool = False  # another node is on its way back, and may take its place then
    still_used: frozenset[str] = frozenset()  # nodes of past faults that the job has still
    restored: bool = False  # ranks had started from a restore point
    scratch: bool = False  # and older than that is only the beginning
    retention: int = 0  # points that its store is to keep; 0: it has none
    refused: str = ""  # why that point cannot be used, where the fault says so
    convicted: str = ""  # explicit evidence against the node
    fallback: Act | None = None  # what is done about such a node where it is not replaced
    suspected: str = ""  # who has seen it says that the node has to be tested, or all
    acquitted: bool = False  # tests of the node found nothing lately
    cut_off: tuple[str, ...] = ()  # two nodes that are known not to reach each other
    of_script: bool = False  # by what it shows itself it is the script's
    apart: bool = False  # this fault tells of two nodes that do not reach each other
    blind: str = ""  # why the driver may not see well now
    hopeless: str = ""  # why no restart of these ranks can help
    earned: bool = False  # it got on well since its last fault
    last: bool = False  # its budget is used up: what is tried now is tried last
    before: int | None = None  # a version that ran before this one
    rate: same.Rate = same.Rate(1, 0.0)  # of such faults with this version, this one with them
    rate_before: same.Rate = same.Rate(0, 0.0)  # of that version
    said_of_it: Fact | None = None  # what a person said last for or against this version
    pauses: int = 3  # restarts with ever more patience at one site
    outside: bool = False  # it died of a signal that somebody else sent
    fix: str = ""  # which option would have let it go on
    ways: Ways = Ways()

    @property
    def recurred(self) -> list[Fact]:
        """Faults that came at the same site, which the job has not passed since."""
        if not self.past:
            return []
        return same.at_site(self.past, self.site, self.now, self.began_s)

    @property
    def all_on_node(self) -> bool:
        """Whether all faults at the site came on its node."""
        return self.node is not None and all(fact.about.node == self.node for fact in self.recurred)

    @property
    def went_along(self) -> bool:
        """Whether it came on its node again at another place of the job."""
        return self.node is not None and any(
            fact.done is Act.SWAP
            and fact.about.node == self.node
            and fact.about.place != self.place
            for fact in self.recurred
        )

    @property
    def node_name(self) -> str:
        """Its node, for people."""
        return self.node.name if self.node is not None else "no node"

    @property
    def named(self) -> list[OfNode]:
        """The nodes that faults lately named, this one's last."""
        this = None if self.assumed else self.node
        found = (*(fact.about.named for fact in self.past), this)
        return [node for node in found if node is not None]

    @property
    def node_faults(self) -> int:
        """How many of these faults its node was named for, this one with them."""
        return self.named.count(self.node) if self.node is not None else 0

    @property
    def stands_out(self) -> bool:
        """Whether its node does, among the job's, alone or as one of a few that had two each; never
        where the job may have no other."""
        if self.alone or self.node is None:
            return False
        faults, few = len(self.named), len(set(self.named))
        if same.stands_out(self.node_faults, faults, self.nodes):
            return True
        return self.node_faults >= same.LEAST_FAULTS and same.few_stand_out(few, faults, self.nodes)

    @property
    def pair(self) -> tuple[str, ...]:
        """The two of the job's nodes that all its dead standstills were on, in turn, where that is
        more than chance; () else."""
        names = sorted({each.name for each in self.named})
        dead = self.hang and self.fault is FaultClass.DIED and self.still_used.issuperset(names)
        return tuple(names) if dead and len(names) == 2 and self._often else ()

    @property
    def _often(self) -> bool:
        """Whether that is no chance: of two nodes it is always, and the third time counts."""
        faults = len(self.named)
        few = same.few_stand_out(2, faults, self.nodes) or self.stands_out
        return few or (faults >= same.ALONE_FAULTS and bool(self.nodes == 2 or self.suspected))

    @property
    def stands_out_elsewhere(self) -> bool:
        """Whether its node stands out by what came at other sites alone."""
        recurred = self.recurred
        others = (fact.about.named for fact in self.past if fact not in recurred)
        named = [node for node in others if node is not None]
        faults = named.count(self.node) if self.node is not None and not self.alone else 0
        return same.stands_out(faults, len(named), self.nodes)

    @property
    def worse(self) -> bool:
        """Whether faults come more often than with the version before, and no node stands out."""
        if self.before is None or self.rate.faults < same.LEAST_FAULTS or self.stands_out:
            return False
        return same.more_often(self.rate, self.rate_before, self.nodes)

    @property
    def alone(self) -> bool:
        """Whether the job has one node, and may have no other."""
        return self.nodes == 1 and self.leave is None

    @property
    def leave(self) -> Act | None:
        """The cheapest way to leave the node; None where there is none."""
        return self.ways.cheapest(Act.MOVE_WARM, Act.MOVE_COLD)
