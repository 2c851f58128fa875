"""A fleet on which others work, too: which nodes a job asks for, in which order, what it holds."""

from collections import defaultdict

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.driver.batch.deadlines import next_deadline, turns_of
from holdfast.driver.core import events as e
from holdfast.driver.core.effects import Allocate
from holdfast.driver.core.state.fit import Use, fits
from holdfast.driver.core.state.model import Phase
from holdfast.protocol.messages import Task

FULL = "Insufficient cpu"
TASK = Task(command=("train",), workdir=".")
PLACED_S = 30.0
"""As long as the cluster tries."""


class Fleet:
    """Nodes of which some have no room: the cluster finds that out in the usual time, and tells.

    `knows`: it can tell of all that are full at once, without a try.
    """

    def __init__(self, life, names: list[str], full: set[str], *, knows: bool = False) -> None:
        self.life = life
        self.full = full
        self._knows = knows
        self.asked: defaultdict[str, list[str]] = defaultdict(list)  # nodes by job, in order
        self.refused: defaultdict[str, set[str]] = defaultdict(set)  # nodes by job
        self.been_whole: set[str] = set()
        for name in names:
            self.do(e.NodeAppeared(node=name))

    def do(self, event: e.AnyEvent) -> None:
        """It happens; nobody is asked for again while one is left that never was."""
        for effect in self.life.do(event).effects:
            if isinstance(effect, Allocate):
                self.asked[effect.job].append(effect.node)
                self._its_turn(effect)

    def _its_turn(self, effect: Allocate) -> None:
        asked, nodes = self.asked[effect.job], self.life.state.nodes.values()
        left = {node.name for node in nodes if fits(Use.PLACE, None, node, self.life.now)} - set(
            asked
        )
        again = effect.node in self.refused[effect.job]  # one that was only given back had no turn
        assert not (again and left), f"{asked}, and {left} is free"

    def submit(self, job: str, *, nodes: int, standbys: int = 0) -> None:
        plan = e.Plan(task=TASK, nodes=nodes, ranks_per_node=1, standbys=standbys)
        self.do(e.JobSubmitted(job=job, plan=plan))

    def wait_s(self, seconds: float) -> None:
        """Time passes; whatever is due is looked at."""
        until_s = self.life.now + seconds
        while (due := next_deadline(self.life.state)) is not None and due <= until_s:
            self.life.now = max(self.life.now, due)
            for each in turns_of(self.life.state, e.Ticked(), self.life.now):
                self.do(each)
        self.life.now = until_s

    def round(self) -> None:
        """All calls that are open end."""
        state = self.life.state
        opened = [node for node in state.nodes.values() if node.job and not node.allocated]
        for node in [node for node in state.nodes.values() if node.releasing]:
            self.do(e.ExecutorDisconnected(node=node.name, incarnation=node.incarnation))
            self.do(e.NodeReleased(node=node.name, cause=node.told.called))
        for node in opened:
            if node.name not in self.full:
                cause, job = node.told.called, node.job
                self.do(e.NodeAllocated(job=job, node=node.name, cause=cause))
                self.do(e.ExecutorConnected(node=node.name, incarnation=f"{cause}", address=""))
        if not self._knows:
            self.wait_s(PLACED_S)
        for node in opened:
            if node.name in self.full:
                self.refused[node.job].add(node.name)
                self.do(self._refusal(node))

    def _refusal(self, node) -> e.AllocationFailed:
        others = dict.fromkeys(self.full - {node.name}, FULL) if self._knows else {}
        return e.AllocationFailed(
            job=node.job,
            node=node.name,
            why=FULL,
            unfit=True,
            late=not self._knows,
            others=others,
            cause=node.told.called,
        )

    def stop_whole(self) -> None:
        """Each job that has what it needs ends, and leaves its nodes to the next."""
        for job in list(self.life.state.jobs):
            if self.whole(job):
                self.been_whole.add(job)
                self.do(e.StopRequested(job=job))

    def whole(self, job: str) -> bool:
        places = self.life.state.jobs[job].places
        nodes = self.life.state.nodes
        return bool(places) and all(place and nodes[place].allocated for place in places)


TEN = [f"n{number}" for number in range(1, 11)]
SIX = set(TEN[:6])


def test_a_job_finds_the_free_nodes_behind_six_that_are_full(life) -> None:
    fleet = Fleet(life, sorted(TEN), SIX)
    fleet.submit("job", nodes=2)
    for _ in range(6):
        fleet.round()
    assert fleet.whole("job")
    assert not SIX & set(life.job.places)
    assert len(set(fleet.asked["job"]) & SIX) == len([n for n in fleet.asked["job"] if n in SIX])


def test_where_the_cluster_knows_who_is_full_one_refusal_is_enough(life) -> None:
    fleet = Fleet(life, TEN, SIX, knows=True)
    fleet.submit("job", nodes=2)
    fleet.round()
    fleet.round()
    assert fleet.whole("job")
    assert SIX & set(fleet.asked["job"]) == {"n1"}


def test_a_start_that_misses_a_node_after_its_time_holds_none_of_the_others(life) -> None:
    """Another job, which needs one node only, gets the one that was held in vain."""
    fleet = Fleet(life, ["n1", "n2", "n3"], {"n2", "n3"})
    fleet.submit("large", nodes=2)
    fleet.submit("small", nodes=1)
    for _ in range(4):
        fleet.round()
    assert life.state.jobs["large"].places == ()
    assert life.state.jobs["small"].places == ("n1",)
    assert fleet.whole("small")


def test_whoever_was_waited_for_as_well_had_its_turn_too(life) -> None:
    """Of two that are refused at once the first undoes the start, and the other is remembered."""
    fleet = Fleet(life, ["n1", "n2", "n3", "n4"], {"n1", "n2"})
    fleet.submit("job", nodes=2)
    fleet.round()
    assert set(life.job.unfit) == {"n1", "n2"}
    assert life.job.places == ("n3", "n4")


def test_a_standby_that_is_not_to_be_had_undoes_no_start(life) -> None:
    fleet = Fleet(life, ["n1", "n2", "n3"], {"n3"})
    fleet.submit("job", nodes=2, standbys=1)
    fleet.round()
    assert life.job.places == ("n1", "n2")
    assert fleet.whole("job")


def test_it_says_which_nodes_are_full_while_it_waits(life) -> None:
    fleet = Fleet(life, ["n1", "n2"], {"n1", "n2"}, knows=True)
    fleet.submit("job", nodes=2)
    fleet.round()
    assert life.job.phase is Phase.PENDING
    assert "it needs 2 nodes, and none is free" in life.job.waiting
    assert FULL in life.job.waiting


def test_a_node_that_has_room_again_is_asked_for_at_once(life) -> None:
    fleet = Fleet(life, ["n1", "n2"], {"n1", "n2"}, knows=True)
    fleet.submit("job", nodes=2)
    fleet.round()
    fleet.round()
    assert life.job.phase is Phase.PENDING
    fleet.full.clear()
    for name in ("n1", "n2"):
        fleet.do(e.NodeFits(job="job", node=name))
    fleet.round()
    assert fleet.whole("job")


def test_room_for_a_job_that_is_gone_or_was_not_refused_is_no_news(life) -> None:
    fleet = Fleet(life, ["n1"], set())
    fleet.submit("job", nodes=2)
    assert life.do(e.NodeFits(job="job", node="n1")).idle
    assert life.do(e.NodeFits(job="gone", node="n1")).idle


def test_once_it_runs_what_was_refused_before_says_nothing_of_the_next_time(life) -> None:
    for name in ("n1", "n2", "n3"):
        life.node(name)
    life.submit("job", nodes=2)
    life.do(e.AllocationFailed(job="job", node="n1", why=FULL, unfit=True))
    life.do(e.NodeReleased(node="n1"))
    life.wait(until_s=life.now + life.policy.rest_s + 1)
    assert set(life.job.tried) == {"n1"}
    life.answer()
    life.answer()
    assert life.phase is Phase.RUNNING
    assert life.job.tried == {}


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    count=st.integers(1, 9),
    full=st.sets(st.integers(0, 8)),
    wanted=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    racks=st.integers(1, 3),
    knows=st.booleans(),
)
def test_no_node_is_asked_for_again_before_all_others_that_are_free(
    life, count: int, full: set[int], wanted: list[int], racks: int, knows: bool
) -> None:
    life = type(life)()
    names = [f"n{number}" for number in range(count)]
    fleet = Fleet(life, names, {f"n{number}" for number in full if number < count}, knows=knows)
    for number, name in enumerate(names):
        life.do(e.NodeAppeared(node=name, rack=f"r{number % racks}"))
    for number, nodes in enumerate(wanted):
        fleet.submit(f"job{number}", nodes=nodes)
    for _ in range(40 * len(wanted)):
        fleet.round()
        fleet.stop_whole()
    few_enough = {f"job{n}" for n, nodes in enumerate(wanted) if nodes <= count - len(fleet.full)}
    assert fleet.been_whole >= few_enough
