"""Links that hold a job up or lose packets: told once, taken back, and no healthy job's."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.driver.watch import flows, slow_links
from holdfast.driver.watch.detector import Context
from holdfast.driver.watch.jobs import JobSeen, RankSeen
from holdfast.driver.watch.model import Expectation, Settings
from holdfast.driver.watch.slow_links import LEARNED, SlowLinks
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Flow, Heartbeat, RankProgress, Seat

MB = 1e6
BEAT_S, STEP_S, STEP_BYTES = 5.0, 0.25, 5 * MB
SETTLES_S = (LEARNED + 2) * slow_links.WINDOW_S
SOON_S = (slow_links.IN_A_ROW + 1.5) * slow_links.WINDOW_S
Pair = tuple[str, str]


class Ring:
    """Ranks that each send to the next; what `rate` says is bytes a second while it sends."""

    def __init__(self, nodes: int) -> None:
        self.names = [f"node-{number}" for number in range(nodes)]
        self.rate: Callable[[Pair], float] = lambda pair: 400 * MB
        self.lost: Callable[[Pair], float] = lambda pair: 0.0002
        self.step_bytes, self.step_s = STEP_BYTES, STEP_S
        self.now, self.step, self.epoch = 0.0, 0.0, 0
        self.sees_most, self.beat_s = True, BEAT_S
        self.detector, self.sums = SlowLinks(), dict[Pair, list[float]]()
        self.incarnation, self.silent, self.version = "a", set[str](), 1
        self.begin()

    @property
    def pairs(self) -> list[Pair]:
        return list(zip(self.names, [*self.names[1:], self.names[0]], strict=True))

    def begin(self) -> None:
        self.epoch += 1
        seats = tuple(
            Seat(rank=n, local_rank=0, node=name, address="") for n, name in enumerate(self.names)
        )
        expected = Expectation(job="job", epoch=self.epoch, version=self.version, seats=seats)
        self.job = JobSeen(expected=expected, began_s=self.now)

    def go(self, seconds: float) -> list[Finding]:
        found: list[Finding] = []
        until_s = self.now + seconds
        while self.now < until_s:
            slowest_s = max(self.step_bytes / self.rate(pair) for pair in self.pairs)
            steps = self.beat_s / (self.step_s + slowest_s)
            self.now, self.step = self.now + self.beat_s, self.step + steps
            context = Context(settings=Settings(), now=self.now, sees_most=self.sees_most)
            for rank, pair in enumerate(self.pairs):
                seen = RankProgress(rank=rank, epoch=self.epoch, job="job", step=int(self.step))
                self.job.ranks[rank] = RankSeen(progress=seen, heard_s=self.now, uptime_s=0.0)
                beat = self._beat(pair, steps)
                if pair[0] not in self.silent:
                    self.detector.heard_of(beat, self.job, context)
                found += self.detector.looked_at(self.job, context)
        return found

    def _beat(self, pair: Pair, steps: float) -> Heartbeat:
        sums = self.sums.setdefault(pair, [0.0] * 4)
        sent = steps * self.step_bytes
        more = (sent, sent / self.rate(pair), sent / 1448, sent / 1448 * self.lost(pair))
        sums[:] = [one + other for one, other in zip(sums, more, strict=True)]
        flow = Flow(
            local=pair[0].replace("node", "10.0.0"),
            remote=pair[1].replace("node", "10.0.0"),
            sent_bytes=int(sums[0]),
            busy_s=sums[1],
            segments=int(sums[2]),
            resent=int(sums[3]),
        )
        fields: dict[str, Any] = {
            "node": pair[0],
            "incarnation": self.incarnation,
            "uptime_s": self.now,
        }
        return Heartbeat(**fields, sequence=1, flows=(flow,))

    def node_is_slow(self, node: str, rate: float = 10 * MB) -> None:
        self.rate = lambda pair: rate if node in pair else 400 * MB


@pytest.fixture
def ring() -> Ring:
    made = Ring(4)
    assert made.go(SETTLES_S) == []
    return made


def test_a_slow_link_is_told_once_with_its_node_and_taken_back(ring: Ring) -> None:
    ring.node_is_slow("node-1")
    (found,) = ring.go(3 * SOON_S)
    assert (found.kind, found.weight, found.node) == (Kind.LINK_SLOW, Weight.REPORT, "node-1")
    assert found.summary.startswith(
        "the link of node-1 holds the job up: 10 MB/s while it sends, and before 400 MB/s; "
        "a step takes 7"
    )
    assert len(found.evidence) == 2
    ring.rate = lambda pair: 400 * MB
    (back,) = ring.go(3 * SOON_S)
    assert (back.kind, back.node) == (Kind.LINK_WELL, None)


def test_of_one_flow_both_ends_are_told_and_neither_is_named(ring: Ring) -> None:
    ring.rate = lambda pair: 10 * MB if pair == ("node-1", "node-2") else 400 * MB
    (found,) = ring.go(SOON_S)
    assert found.node is None
    assert found.summary.startswith("the link between node-1 and node-2 holds the job up")


def test_a_link_is_not_well_because_nothing_is_sent_over_it(ring: Ring) -> None:
    """As while others evaluate, or where its daemon is silent for a while."""
    ring.node_is_slow("node-1")
    assert [each.kind for each in ring.go(SOON_S)] == [Kind.LINK_SLOW]
    ring.silent = {"node-0", "node-1"}
    ring.rate = lambda pair: 400 * MB
    assert ring.go(3 * SOON_S) == []


def test_a_driver_that_sees_few_nodes_tells_of_no_link(ring: Ring) -> None:
    """It may be its own network that is bad."""
    ring.node_is_slow("node-1")
    ring.sees_most = False
    assert ring.go(2 * SOON_S) == []
    ring.sees_most = True
    assert [each.node for each in ring.go(2 * SOON_S)] == ["node-1"]


def test_one_good_window_takes_nothing_back(ring: Ring) -> None:
    ring.node_is_slow("node-1")
    assert [each.kind for each in ring.go(SOON_S)] == [Kind.LINK_SLOW]
    for _ in range(3):
        ring.rate = lambda pair: 400 * MB
        assert ring.go(1.5 * slow_links.WINDOW_S) == []
        ring.node_is_slow("node-1")
        assert ring.go(2 * slow_links.WINDOW_S) == []


def test_of_a_job_of_long_steps_it_is_told_and_its_ranks_are_seldom_gone_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ring, looks, heard_step = Ring(4), list[float](), JobSeen.heard_step

    def counted(job: JobSeen) -> int | None:
        looks.append(ring.now)
        return heard_step(job)

    monkeypatch.setattr(JobSeen, "heard_step", counted)
    ring.step_s, ring.beat_s = 8.0, 0.25
    assert ring.go(8 * SETTLES_S) == []
    assert len(looks) <= ring.now / slow_links.LOOK_AGAIN_S + 1
    ring.node_is_slow("node-1", MB)
    assert [each.node for each in ring.go(8 * SOON_S)] == ["node-1"]


def test_lost_packets_are_told(ring: Ring) -> None:
    ring.lost = lambda pair: 0.02 if pair[1] == "node-3" else 0.0002
    (found,) = ring.go(SOON_S)
    assert found.summary == (
        "the link between node-2 and node-3 loses packets: "
        "2.00% of what node-2 sends to node-3 is sent again"
    )


def test_where_all_links_are_slower_none_is_told(ring: Ring) -> None:
    ring.rate = lambda pair: 10 * MB
    assert ring.go(3 * SOON_S) == []


def test_a_congested_network_that_loses_everywhere_names_no_link(ring: Ring) -> None:
    ring.lost = lambda pair: 0.02
    assert ring.go(3 * SOON_S) == []


@pytest.mark.parametrize("nodes", [2, 3])
def test_a_job_of_few_nodes_is_compared_with_what_was_before(nodes: int) -> None:
    ring = Ring(nodes)
    assert ring.go(SETTLES_S) == []
    ring.node_is_slow("node-1")
    (found,) = ring.go(SOON_S)
    assert found.kind is Kind.LINK_SLOW
    assert "node-1" in found.summary


@pytest.mark.parametrize("every_s", [5.0, 5.5, 6.0, 7.5])
def test_how_often_a_daemon_looks_hides_no_slow_link(every_s: float) -> None:
    """Of two nodes there are no others: as many bytes a step as before are to be seen."""
    ring, told_s = Ring(2), dict[Pair, float]()
    beat_of, ring.beat_s = ring._beat, 0.5

    def looked(pair: Pair, steps: float) -> Heartbeat:
        beat = beat_of(pair, steps)
        if ring.now - told_s.get(pair, -every_s) < every_s:
            return msgspec.structs.replace(beat, flows=())
        told_s[pair] = ring.now
        return beat

    ring._beat = looked  # type: ignore[method-assign]
    assert ring.go(2 * SETTLES_S) == []
    ring.node_is_slow("node-1", 20 * MB)
    assert [each.kind for each in ring.go(2 * SOON_S)] == [Kind.LINK_SLOW]


def test_one_that_is_slow_from_the_start_is_told() -> None:
    ring = Ring(6)
    ring.node_is_slow("node-1")
    (found,) = ring.go(SETTLES_S)
    assert found.node == "node-1"
    assert found.summary.endswith("holds the job up: 10 MB/s while it sends, and others 400 MB/s")


def test_a_script_that_sends_little_for_a_while_is_not_told(ring: Ring) -> None:
    """An evaluation of one rank: small messages, which take long for their size."""
    two = Ring(2)
    assert two.go(SETTLES_S) == []
    two.step_bytes, two.rate = 300_000, lambda pair: MB
    assert two.go(3 * SOON_S) == []


def test_a_moment_is_not_told(ring: Ring) -> None:
    for _ in range(4):
        ring.node_is_slow("node-1")
        assert ring.go(slow_links.WINDOW_S) == []
        ring.rate = lambda pair: 400 * MB
        assert ring.go(2 * slow_links.WINDOW_S) == []


def test_a_daemon_that_began_anew_is_not_told(ring: Ring) -> None:
    ring.sums, ring.incarnation = {}, "b"
    assert ring.go(3 * SOON_S) == []


@pytest.mark.parametrize("incarnation", ["a", "b"], ids=["of less", "of more"])
def test_sums_of_others_are_no_difference(incarnation: str) -> None:
    """Of other ranks they are less; of another daemon they may be more."""
    nodes, more = dict[str, flows.Told](), incarnation == "b"
    hear(nodes, "node-1", flow("a", "b", 100, 10.0))
    hear(nodes, "node-2", flow("b", "a", 1))
    beat = {"node": "node-1", "incarnation": incarnation, "sequence": 1}
    for sent in (200, 230) if more else (10, 40):
        told = flow("a", "b", sent, sent / 10)
        flows.hear(nodes, Heartbeat(**beat, uptime_s=float(sent), flows=(told,)))
    moved = flows.window(nodes, 3, 10.0)["node-1", "node-2"]
    assert (moved.sent_bytes, moved.busy_s) == (30 * MB, pytest.approx(3.0))


def test_of_two_rails_the_busier_one_is_looked_at() -> None:
    nodes = dict[str, flows.Told]()
    for times in (1, 2):
        hear(nodes, "node-2", flow("b", "a", times), flow("b2", "a2", times))
        fast, slow = flow("a", "b", 50 * times, 0.1 * times), flow("a2", "b2", 50 * times, times)
        hear(nodes, "node-1", fast, slow)
    assert flows.window(nodes, 3, 10.0)["node-1", "node-2"].rate == 50 * MB


def test_what_was_told_of_an_attempt_is_taken_back_in_the_next(ring: Ring) -> None:
    ring.node_is_slow("node-1")
    assert [each.kind for each in ring.go(SOON_S)] == [Kind.LINK_SLOW]
    ring.rate = lambda pair: 400 * MB
    ring.begin()
    assert [each.kind for each in ring.go(3 * SOON_S)] == [Kind.LINK_WELL]


def test_of_another_version_nothing_is_usual_yet() -> None:
    """With the same bytes in smaller messages, say: of two nodes there is no other flow."""
    ring = Ring(2)
    assert ring.go(SETTLES_S) == []
    ring.version = 2
    ring.begin()
    ring.rate = lambda pair: 20 * MB
    assert ring.go(3 * SOON_S) == []


def test_of_a_node_that_is_gone_nothing_is_known(ring: Ring) -> None:
    ring.detector.gone("node-1")
    assert "node-1" not in repr(vars(ring.detector))
    ring.detector.drop("job")
    assert "node-0" not in repr(vars(ring.detector))


def test_the_next_attempt_tells_it_again_by_what_was_usual_in_the_one_before(ring: Ring) -> None:
    ring.begin()
    ring.node_is_slow("node-1")
    (found,) = ring.go(SOON_S)
    assert "and before 400 MB/s" in found.summary


def flow(local: str, remote: str, sent_mb: float, busy_s: float = 0.0) -> Flow:
    return Flow(local=local, remote=remote, sent_bytes=int(sent_mb * MB), busy_s=busy_s)


def hear(nodes: dict[str, flows.Told], node: str, *told: Flow) -> None:
    """Five seconds after what it told before."""
    known = nodes[node].flows.values() if node in nodes else ()
    uptime_s = max((each.uptime_s for each in known), default=0.0) + BEAT_S
    beat = {"node": node, "incarnation": "a", "sequence": 1, "uptime_s": uptime_s}
    flows.hear(nodes, Heartbeat(**beat, flows=told))


def test_an_address_that_several_nodes_have_is_nobodys() -> None:
    """As 127.0.1.1, or that of a bridge: what goes there stays on the node."""
    nodes = dict[str, flows.Told]()
    for sent in (0, 50):
        for name, own in (("node-1", "10.0.0.1"), ("node-2", "10.0.0.2")):
            inner = flow("127.0.0.1", "127.0.1.1", sent, sent), flow("127.0.1.1", "127.0.0.1", sent)
            hear(nodes, name, *inner, flow(own, "10.0.0.1", sent))
    assert set(flows.window(nodes, 3, 10.0)) == {("node-2", "node-1")}


def test_a_flow_that_was_not_told_for_long_brings_none_of_that_time() -> None:
    nodes = dict[str, flows.Told]()
    hear(nodes, "node-2", flow("b", "a", 1))
    hear(nodes, "node-1", flow("a", "b", 0))
    flows.window(nodes, 3, 10.0)
    assert flows.window(nodes, 3, 10.0) == {}, "nothing was told"
    for sent, busy_s in ((500, 60.0), (520, 60.5)):
        hear(nodes, "node-1", flow("a", "b", sent, busy_s))
    hear(nodes, "node-2", flow("b", "a", 2))
    (moved,) = flows.window(nodes, 3, 10.0).values()
    assert (moved.sent_bytes, moved.busy_s) == (20 * MB, 0.5)


def test_a_job_of_many_nodes_costs_the_driver_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sends to sixteen, all of them busy: once each was compared with each."""
    nodes, names = dict[str, flows.Told](), [f"node-{number}" for number in range(512)]
    for beat in range(4):
        for number, name in enumerate(names):
            to = [names[(number + away) % len(names)] for away in range(1, 17)]
            hear(nodes, name, *(flow(name, each, 100 * beat, 3 * beat) for each in to))
        if beat == 2:
            flows.window(nodes, 3, 10.0)
    compared, are_alike = list[None](), slow_links._are_alike

    def counted(one: flows.Moved, other: flows.Moved) -> bool:
        compared.append(None)
        return are_alike(one, other)

    monkeypatch.setattr(slow_links, "_are_alike", counted)
    moved = flows.window(nodes, 3, 10.0)
    assert len(names) <= len(moved) <= flows.MOST
    job = JobSeen(expected=Expectation(job="job", epoch=1, seats=()), began_s=0.0)
    assert list(slow_links.judge(slow_links.Links(1), moved, job)) == []
    assert 0 < len(compared) <= slow_links.COMPARED * len(moved)


def test_many_links_at_once_are_how_the_network_is_built() -> None:
    """Racks with less between them than within: a ring crosses them here and there."""
    ring = Ring(40)
    ring.rate = lambda pair: (40 if int(pair[0][5:]) % 4 == 0 else 400) * MB
    assert ring.go(SETTLES_S) == []


@settings(max_examples=60, deadline=None)
@given(
    nodes=st.integers(2, 8),
    rates=st.lists(st.floats(200, 600), min_size=8, max_size=8),
    losses=st.lists(st.floats(0, 0.001), min_size=8, max_size=8),
    paused=st.integers(0, 8),
)
def test_no_link_of_a_healthy_job_is_told(
    nodes: int, rates: list[float], losses: list[float], paused: int
) -> None:
    """Whose links differ threefold, and move by themselves; with pauses."""
    ring = Ring(nodes)

    def rate(pair: Pair) -> float:
        number = ring.names.index(pair[0])
        return MB * rates[(number + int(ring.now / 7)) % 8]

    ring.rate, ring.lost = rate, lambda pair: losses[ring.names.index(pair[0])]
    for number in range(8):
        assert ring.go(slow_links.WINDOW_S) == []
        if number == paused:
            ring.now += 60.0
