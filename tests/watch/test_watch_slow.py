"""Ranks that hold their peers up, in made-up time: who is told, why, and who never is."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.driver.core.faults.fault import fault_of
from holdfast.driver.watch import Expectation, jobs, slow, slow_words
from holdfast.driver.watch.jobs import RankSeen
from holdfast.driver.watch.slow_words import Cause, Part
from holdfast.protocol.faults import Blame, Finding, Kind, Weight
from holdfast.protocol.messages import Gpu, Heartbeat, PeerProgress, RankProgress, Seat
from holdfast.protocol.topology import Topology

KNOWN = slow.SKIPPED + slow.LEARNED + 1
"""Heartbeats after which it is known what is usual."""


@dataclass
class Rank:
    """A rank's sums, and what a step of it takes: `cpu_s` of computing, and what comes on top."""

    cpu_s: float = 0.1
    stands_s: float = 0.0
    delayed_s: float = 0.0
    throttled_s: float = 0.0
    stopped_s: float = 0.0
    garbage_s: float = 0.0  # of its computing
    saves_s: float = 0.0  # a pause that it marks after each step
    tokens: int = 0
    phases: dict[str, float] = field(default_factory=dict)  # that its script marks
    marked: dict[str, float] = field(default_factory=dict)  # their sums
    sums: dict[str, float] = field(default_factory=dict)

    @property
    def own_s(self) -> float:
        return self.cpu_s + self.stands_s + self.delayed_s + self.throttled_s + self.stopped_s


class Job:
    """Ranks in step: each step ends once the slowest is there."""

    def __init__(self, count: int = 4, each_node: int = 1, seed: int = 1, **more: Any) -> None:
        self.ranks = [Rank() for _ in range(count)]
        self.chance = Random(seed)
        self.noise, self.steps_a_beat = 0.05, 5
        self.step, self.at_s, self.epoch = 0, 0.0, 1
        self.state, self.known = slow.Slow(), dict[int, RankSeen]()
        self.each_node, self.more = each_node, more
        self.disturb: Callable[[int, int], float] = lambda step, rank: 0.0
        self.fields: dict[str, Any] = {}
        self.hot: set[str] = set()
        self.alone: dict[int, tuple[PeerProgress, ...]] = {}  # who is of a role of its own

    @property
    def expected(self) -> Expectation:
        seats = tuple(
            Seat(rank=rank, local_rank=0, node=f"node-{rank // self.each_node}", address="")
            for rank in range(len(self.ranks))
        )
        return Expectation(job="job", epoch=self.epoch, seats=seats, **self.more)

    def go(self, beats: int) -> list[tuple[int, Finding]]:
        """What was told, and at which step."""
        return [(self.step, each) for _ in range(beats) for each in self._beat()]

    def _beat(self) -> Iterator[Finding]:
        for _ in range(self.steps_a_beat):
            self._step()
        seen = tuple(self._progress(*each) for each in enumerate(self.ranks))
        beat = Heartbeat(node="", incarnation="", sequence=1, uptime_s=self.at_s, ranks=seen)
        self.state = slow.fold(self.state, beat, self.known, self.expected)
        for each in seen:
            self.known[each.rank] = RankSeen(progress=each, heard_s=self.at_s, uptime_s=0.0)
        yield from slow.judge(self.state, self.known, self.expected, 0.0, self.at_s, hot=self.hot)

    def _step(self) -> None:
        self.step += 1
        busy = [each.cpu_s * self.chance.lognormvariate(0, self.noise) for each in self.ranks]
        more = [self.disturb(self.step, rank) for rank in range(len(self.ranks))]
        own = [
            cpu_s + each.own_s - each.cpu_s + more_s
            for cpu_s, each, more_s in zip(busy, self.ranks, more, strict=True)
        ]
        whole_s = max(own) + 0.01 + max(each.saves_s for each in self.ranks)
        self.at_s += whole_s
        for each, cpu_s, own_s in zip(self.ranks, busy, own, strict=True):
            grown = {
                "stepped_s": whole_s,
                "ran_s": cpu_s,
                "waited_s": whole_s - own_s - each.saves_s,
                "paused_s": each.saves_s,
                "delayed_s": each.delayed_s,
                "throttled_s": each.throttled_s,
                "stopped_s": each.stopped_s,
                "garbage_s": each.garbage_s,
                "tokens": each.tokens,
            }
            for name, value in grown.items():
                each.sums[name] = each.sums.get(name, 0) + value
            for name, value in each.phases.items():
                each.marked[name] = each.marked.get(name, 0) + value

    def _progress(self, rank: int, each: Rank) -> RankProgress:
        fields = {"job": "job", "epoch": self.epoch, "pid": 1, "step": self.step, **each.sums}
        fields["peers"] = self.alone.get(rank, ())
        fields["wall_s"] = dict(each.marked)
        return RankProgress(rank=rank, **{**fields, **self.fields})


def test_a_rank_that_is_a_tenth_slower_is_told_within_twenty_steps_and_nothing_is_done() -> None:
    job = Job()
    job.noise, job.steps_a_beat = 0.03, 2
    assert job.go(KNOWN) == []
    job.ranks[2].cpu_s *= 1.1
    since = job.step
    ((step, found),) = job.go(20)
    assert step - since <= 20
    assert (found.kind, found.node, found.rank) == (Kind.SLOW, "node-2", 2)
    assert found.weight is Weight.REPORT
    assert found.summary.startswith("rank 2 on node-2 holds its peers up: its own part of a step")
    assert "takes 1.11 times as long as its peers'; it computes for longer" in found.summary
    assert found.evidence[0].text.startswith("rank 2, milliseconds a step over ")


def test_saves_into_memory_after_each_step_hide_no_slow_rank() -> None:
    job = Job()
    for each in job.ranks:
        each.saves_s = 0.05
    assert job.go(KNOWN) == []
    job.ranks[2].cpu_s *= 1.5
    ((_, found),) = job.go(20)
    assert (found.kind, found.rank) == (Kind.SLOW, 2)


def test_a_heartbeat_that_is_most_of_it_a_pause_is_no_sample() -> None:
    job = Job()
    job.go(KNOWN)
    before = job.state.ranks[0].samples
    job.ranks[0].saves_s = 8.0
    job.go(5)
    assert job.state.ranks[0].samples == before


@pytest.mark.parametrize(
    ("cpu_s", "delayed_s", "others_delayed_s", "cause"),
    [
        pytest.param(0.15, 0.05, 0.0, Cause.CROWDED, id="its-neighbours-slow-its-cpu-too"),
        pytest.param(0.12, 0.12, 0.1, Cause.COMPUTES, id="all-are-crowded-and-it-has-more-to-do"),
        pytest.param(0.1, 0.2, 0.1, Cause.CROWDED, id="all-are-crowded-and-it-most"),
    ],
)
def test_who_waits_longer_for_processors_than_its_own_cpu_time_explains_is_crowded(
    cpu_s: float, delayed_s: float, others_delayed_s: float, cause: Cause
) -> None:
    def part(cpu_s: float, delayed_s: float) -> Part:
        return Part(100, cpu_s + delayed_s, cpu_s, 0.0, delayed_s, 0.0, 0.0, 0.0)

    assert slow_words.cause(part(cpu_s, delayed_s), part(0.1, others_delayed_s)) is cause


def test_who_computes_longer_in_steps_that_are_hardly_computing_holds_nobody_up() -> None:
    job = Job()
    for each in job.ranks:
        each.cpu_s, each.stands_s = 0.001, 0.05
    job.go(KNOWN)
    job.ranks[2].cpu_s *= 1.5
    assert job.go(100) == []


@pytest.mark.parametrize(
    ("what", "cause", "blame"),
    [
        ({"cpu_s": 0.15}, "computes", Blame.UNKNOWN),
        ({"cpu_s": 0.15, "tokens": 150}, "more", Blame.USER),
        ({"throttled_s": 0.05}, "capped", Blame.INFRASTRUCTURE),
        ({"cpu_s": 0.15, "garbage_s": 0.05}, "garbage", Blame.USER),
        ({"cpu_s": 0.15, "garbage_s": 0.01}, "computes", Blame.UNKNOWN),
        ({"delayed_s": 0.05}, "crowded", Blame.UNKNOWN),
        ({"stands_s": 0.05}, "stands", Blame.UNKNOWN),
        ({"stopped_s": 0.05}, "stopped", Blame.UNKNOWN),
    ],
)
def test_what_the_time_goes_into_is_said(what: dict[str, Any], cause: str, blame: Blame) -> None:
    job = Job()
    for each in job.ranks:
        each.tokens = 100
    job.go(KNOWN)
    for name, value in what.items():
        setattr(job.ranks[1], name, value)
    ((_, found),) = job.go(120)
    assert (found.rank, found.evidence[0].data["cause"], fault_of(found).blame) == (1, cause, blame)


def test_nothing_of_its_cgroup_is_said_of_a_rank_whose_own_part_is_no_longer() -> None:
    def after(ran_s: float, waited_s: float) -> RankProgress:
        fields = {"step": 10, "stepped_s": 2.0, "ran_s": ran_s, "waited_s": waited_s}
        return RankProgress(rank=0, job="job", epoch=1, pid=1, **fields)

    since = dict.fromkeys((0, 1), RankProgress(rank=0, job="job", epoch=1, pid=1))
    seen = slow_words.compared(0, since, {0: after(1.5, 0.5), 1: after(1.0, 0.5)})
    assert seen is not None
    assert seen.cause is Cause.COMPUTES


def test_one_that_was_slow_from_the_start_is_told_once_what_is_usual_is_known() -> None:
    job = Job()
    job.ranks[3].stands_s = 0.1
    ((_, found),) = job.go(KNOWN + 16)
    assert found.rank == 3
    assert "since the attempt began" in found.summary


def test_ranks_of_one_node_are_told_as_their_node() -> None:
    job = Job(8, each_node=2)
    job.go(KNOWN)
    for rank in (4, 5):
        job.ranks[rank].cpu_s *= 1.3
    ((_, found),) = job.go(20)
    assert (found.node, found.rank) == ("node-2", None)
    assert found.summary.startswith("all 2 ranks on node-2 hold the others up: rank ")


def test_it_is_taken_back_once_it_keeps_pace() -> None:
    job = Job()
    job.go(KNOWN)
    job.ranks[0].cpu_s *= 1.5
    job.go(20)
    job.ranks[0].cpu_s /= 1.5
    ((_, found),) = job.go(40)
    assert (found.kind, found.rank) == (Kind.KEEPS_PACE, 0)
    assert found.summary == "rank 0 on node-0 keeps pace with its peers again"


def test_an_attempt_without_a_slow_rank_takes_back_what_the_one_before_told() -> None:
    job = Job()
    job.go(KNOWN)
    job.ranks[0].cpu_s *= 2
    job.go(20)
    job.ranks[0].cpu_s /= 2
    job.epoch += 1
    ((_, found),) = job.go(slow.SETTLED + 2)
    assert (found.kind, found.summary) == (
        Kind.KEEPS_PACE,
        "each rank keeps pace with its peers again",
    )


def test_a_rank_without_a_peer_of_its_role_keeps_nothing_from_being_taken_back() -> None:
    job = Job(3)
    job.alone = {2: (PeerProgress(peer=1, sends=1),)}
    job.go(KNOWN)
    job.ranks[0].cpu_s *= 2
    job.go(20)
    job.ranks[0].cpu_s /= 2
    job.epoch += 1
    ((_, found),) = job.go(slow.SETTLED + 2)
    assert found.kind is Kind.KEEPS_PACE


def test_what_a_driver_before_told_is_taken_back_once(cluster: Any) -> None:
    two = cluster(2)
    two.watch.recall("job", {Kind.SLOW: "node-0"})
    two.alter = lambda seen: replace(seen, stepped_s=two.now, ran_s=0.1 * two.step)
    (found,) = two.go(slow.SETTLED)
    assert found.kind is Kind.KEEPS_PACE
    two.epoch += 1
    two.expect()
    assert two.go(slow.SETTLED) == []


def test_a_rank_that_does_not_tell_its_clocks_is_no_slow_one() -> None:
    job = Job()
    job.fields = {"partial": ("done",)}  # on CUDA: when a collective ended is not known
    job.ranks[1].stands_s = 0.3
    assert job.go(100) == []
    assert job.state.ranks == {}


def test_stages_that_a_job_does_not_declare_are_no_slow_ranks() -> None:
    job = Job()
    job.ranks[3].stands_s = 0.1
    job.fields = {"peers": (PeerProgress(peer=0, sends=1, receives=1),)}
    assert job.go(100) == []


def healthy(shape: str, job: Job) -> None:
    """What ranks of a job without a fault do."""
    chance = Random(job.chance.random())
    saves, burst = chance.randrange(20, 60), chance.randrange(100, 300)
    if shape == "stages":
        job.more["topology"] = Topology(pp=len(job.ranks) // 2, dp=2)
        for rank, each in enumerate(job.ranks):
            each.cpu_s *= 1 + rank // 2
    elif shape == "uneven":
        for each in job.ranks:
            each.cpu_s *= chance.uniform(0.85, 1.15)
        job.noise = 0.25
    elif shape == "collections":
        job.disturb = lambda step, rank: 0.3 * (chance.random() < 0.02)
    elif shape == "saves":
        job.disturb = lambda step, rank: 8.0 * (rank == 0 and step % saves == 0)
    elif shape == "evaluates":
        job.disturb = lambda step, rank: 5.0 * (step % saves == 0)
    elif shape == "neighbour":
        victim = chance.randrange(len(job.ranks))

        def burst_of(step: int, rank: int) -> float:
            job.ranks[victim].delayed_s = 0.1 * (step % burst < 30)
            return 0.0

        job.disturb = burst_of


SHAPES = ("even", "stages", "uneven", "collections", "saves", "evaluates", "neighbour")


@settings(max_examples=60, deadline=None)
@given(shape=st.sampled_from(SHAPES), count=st.sampled_from([2, 4, 8]), seed=st.integers(0, 10_000))
def test_nobody_of_a_healthy_job_is_told(shape: str, count: int, seed: int) -> None:
    job = Job(count, seed=seed)
    healthy(shape, job)
    assert job.go(300) == []


def phased(data_s: float, step_s: float) -> Job:
    """All ranks mark `data` and, around it all, `step`; rank 2 reads its data for longer."""
    job = Job()
    for each in job.ranks:
        each.stands_s = each.phases["data"] = 0.02
        each.phases["step"] = 0.12
    assert job.go(KNOWN) == []
    slow_one = job.ranks[2]
    slow_one.stands_s += data_s + step_s - 0.12
    slow_one.phases = {"data": 0.02 + data_s, "step": step_s + data_s}
    return job


def test_the_phase_that_takes_longer_than_its_peers_is_named_and_the_innermost_of_them() -> None:
    ((_, found),) = phased(data_s=0.08, step_s=0.12).go(60)
    assert found.summary.endswith("it neither computes nor waits for peers, most of it in data")
    (text,) = [each.text for each in found.evidence if "in data" in each.text]
    assert text == "in data 100 milliseconds a step, peers 20"


def test_a_phase_that_is_as_long_as_that_of_its_peers_is_not_named() -> None:
    job = phased(data_s=0.0, step_s=0.12)
    job.ranks[2].cpu_s *= 1.5
    ((_, found),) = job.go(60)
    assert "most of it in" not in found.summary


def test_clocks_of_phases_are_kept_of_nobody_who_is_in_no_doubt() -> None:
    job = phased(data_s=0.08, step_s=0.12)
    job.go(60)
    assert set(job.state.clocks) == {0, 1, 2, 3}
    job.ranks[2].stands_s = job.ranks[2].phases["data"] = 0.02
    job.go(60)
    assert job.state.clocks == {}


class OnGpus(Job):
    """Their GPUs are some steps behind, of which the heartbeat has the script's number; a thread
    that waits for its GPU spins, as much as the script has it wait."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.spun: dict[int, float] = {}

    def _progress(self, rank: int, each: Rank) -> RankProgress:
        told = super()._progress(rank, each)
        ahead = self.chance.randrange(4)
        self.spun[rank] = self.spun.get(rank, 0.0) + self.chance.uniform(0, 2) ** 4
        return replace(
            told,
            step=self.step + ahead,
            gpu_step=self.step,
            ran_s=told.ran_s + self.spun[rank],
            partial=("done",),
        )


def test_a_rank_whose_gpu_is_slower_is_told_though_nobody_knows_when_collectives_ended() -> None:
    job = OnGpus()
    assert job.go(KNOWN) == []
    job.ranks[2].cpu_s *= 1.3
    ((_, found),) = job.go(40)
    assert (found.kind, found.rank) == (Kind.SLOW, 2)
    assert re.search(r"takes 1\.[23]\d* times", found.summary)
    assert "its GPU takes longer, or has more to do" in found.summary
    assert "processor" not in found.summary, "CPU time says nothing of it"


def test_where_a_gpu_of_its_node_is_slowed_by_heat_that_is_said_of_it_alone() -> None:
    for node, said in (("node-2", "slowed by heat"), ("node-1", "its GPU takes longer")):
        job = OnGpus()
        job.hot = {node}
        assert job.go(KNOWN) == []
        job.ranks[2].cpu_s *= 1.3
        ((_, found),) = job.go(40)
        assert said in found.summary
        assert (found.sign == "slow-hot") == (node == "node-2")


@pytest.mark.parametrize("seed", range(20))
def test_nobody_of_a_healthy_job_on_gpus_is_told_however_its_threads_spin(seed: int) -> None:
    assert OnGpus(seed=seed).go(KNOWN + 150) == []


def test_a_heartbeat_by_one_clock_is_not_compared_with_one_by_another() -> None:
    job = OnGpus()
    job.go(3)
    seen = job.known[1].progress
    for last, now in ((replace(seen, gpu_step=0), seen), (seen, replace(seen, gpu_step=0))):
        later = replace(now, step=now.step + 9, gpu_step=now.gpu_step and now.gpu_step + 9)
        later = replace(later, stepped_s=later.stepped_s + 9, ran_s=later.ran_s + 1)
        assert slow_words.compared(1, {1: last, 0: last}, {1: later, 0: later}) is None
        state = slow.Slow(epoch=1)
        beat = Heartbeat(node="", incarnation="", sequence=1, uptime_s=0.0, ranks=(later,))
        slow.fold(
            state, beat, {1: RankSeen(progress=last, heard_s=0.0, uptime_s=0.0)}, job.expected
        )
        assert not state.ranks


def test_a_node_is_hot_while_its_newest_heartbeat_says_so() -> None:
    job = jobs.expect(None, OnGpus().expected, 0.0)

    def beat(*gpus: Gpu) -> Heartbeat:
        return Heartbeat(node="node-2", incarnation="", sequence=1, uptime_s=0.0, gpus=gpus)

    jobs.heard(job, beat(Gpu(index=0), Gpu(index=1, slowed_by_heat=True)), 1.0)
    assert job.hot == {"node-2"}
    jobs.heard(job, beat(), 2.0)
    assert job.hot == {"node-2"}, "its driver does not answer"
    jobs.heard(job, beat(Gpu(index=0), Gpu(index=1)), 3.0)
    assert job.hot == set()
