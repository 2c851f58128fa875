"""What a slow rank does with its time, against its peers, and how that is told. Pure.

Used by `slow`. Seconds are of one step, over the steps since the rank was in doubt.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from math import log
from statistics import median

import msgspec

from holdfast.driver.watch.model import Expectation, evidence
from holdfast.protocol.faults import Evidence, Finding, Kind, Weight
from holdfast.protocol.messages import RankProgress

LONGER = 1.04
"""What its own part is longer at least, by the ratio to its peers'."""
EXPLAINS = 0.5
"""Share of what is too long that a cause has to explain."""
FEW = 0.25
"""Share of its peers that may wait less than it."""


class Cause(StrEnum):
    """What the time that is too long goes into."""

    MORE = "it has more to do: as much more tokens"
    STOPPED = "it is stopped again and again"
    CAPPED = "its cgroup has used up its share of the processors"
    HEAT = "a GPU of its node is slowed by heat, as its driver says"
    GPU = "its GPU takes longer, or has more to do, or waits for what feeds it"
    COMPUTES = "it computes for longer: its processor is slower, or it has more to do"
    GARBAGE = "Python's garbage collector runs for longer"
    CROWDED = "it waits for a processor that others use"
    STANDS = "it neither computes nor waits for peers"


SIGNS = {
    Cause.MORE: "slow-more",
    Cause.CAPPED: "slow-capped",
    Cause.GARBAGE: "slow-garbage",
    Cause.HEAT: "slow-hot",
}


class Part(msgspec.Struct, frozen=True, gc=False):
    """Of one rank's steps: seconds a step, and tokens."""

    steps: int
    own_s: float
    cpu_s: float
    waited_s: float
    delayed_s: float
    throttled_s: float
    stopped_s: float
    tokens: float
    garbage_s: float = 0.0

    @property
    def free_s(self) -> float:
        """Its own part, as it would be with a processor of its own."""
        return self.own_s - self.delayed_s - self.throttled_s - self.stopped_s


class InPhase(msgspec.Struct, frozen=True):
    """A phase that the script marks, in seconds a step, and that of its peers, their median."""

    name: str
    mine_s: float
    peers_s: float


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A rank, and the median of its peers."""

    mine: Part
    peers: Part
    count: int
    cause: Cause
    waits_less: bool  # than half of them
    waits_least: bool  # but for a few
    frame: str  # where it stood when it was heard last
    stopped: bool
    gpu: bool = False  # times are its GPU's
    phase: InPhase | None = None  # where most of it is

    @property
    def computes_longer(self) -> bool:
        """By as much as counts in a step, of which most may be no computing at all."""
        more_s = self.mine.cpu_s - self.peers.cpu_s
        return more_s > (LONGER - 1) * max(self.peers.cpu_s, self.peers.free_s)

    @property
    def takes_longer(self) -> bool:
        return self.mine.own_s > LONGER * self.peers.own_s


def compared(
    rank: int, since: Mapping[int, RankProgress], now: Mapping[int, RankProgress]
) -> Compared | None:
    """None where the rank, or all of its peers, have done no steps since."""
    parts = {
        each: part for each in since if each in now and (part := _part(since[each], now[each]))
    }
    mine = parts.pop(rank, None)
    if mine is None or not parts:
        return None
    others = list(parts.values())
    rows = map(msgspec.structs.astuple, others)
    peers = Part(*(median(values) for values in zip(*rows, strict=True)))
    less = sum(each.waited_s < mine.waited_s for each in others)
    return Compared(
        mine=mine,
        peers=peers,
        count=len(others),
        cause=cause(mine, peers, gpu=now[rank].gpu_step > 0),
        waits_less=mine.waited_s < peers.waited_s,
        waits_least=less <= FEW * len(others) and mine.waited_s < peers.waited_s,
        frame=now[rank].frame,
        stopped=now[rank].process in ("T", "t"),
        gpu=now[rank].gpu_step > 0,
    )


def in_heat(seen: Compared, *, hot: bool) -> Compared:
    """The same, where its GPU takes longer and one of its node is `hot`."""
    explains = hot and seen.cause is Cause.GPU
    return msgspec.structs.replace(seen, cause=Cause.HEAT) if explains else seen


def in_phase(rank: int, seen: Compared, clocks: Mapping[int, "Clocks"]) -> Compared:
    """The same, with the phase in which most of what is too long lies, where there is one. Phases
    may lie in each other: the shortest that explains as much tells most."""
    own = {each: of.a_step() for each, of in clocks.items()}
    mine = own.pop(rank, {})
    needed_s = EXPLAINS * (seen.mine.own_s - seen.peers.own_s)
    found = []
    for name, mine_s in mine.items():
        peers_s = [times[name] for times in own.values() if name in times]
        if peers_s and mine_s - median(peers_s) >= needed_s > 0:
            found.append(InPhase(name, mine_s, median(peers_s)))
    phase = min(found, key=lambda each: each.mine_s, default=None)
    return msgspec.structs.replace(seen, phase=phase)


class Clocks(msgspec.Struct, gc=False):
    """By phase, seconds on the wall of one rank: when it was in doubt, and now."""

    pid: int
    step: int
    since: dict[str, float]
    last_step: int
    now: dict[str, float]

    def a_step(self) -> dict[str, float]:
        steps = self.last_step - self.step
        if steps <= 0:
            return {}
        return {name: (at_s - self.since.get(name, 0.0)) / steps for name, at_s in self.now.items()}


def waited_s(since: RankProgress, now: RankProgress) -> float:
    """A wait in which it is stopped is no wait for peers: they wait for it."""
    return max(0.0, now.waited_s - since.waited_s - (now.stopped_s - since.stopped_s))


def _part(since: RankProgress, now: RankProgress) -> Part | None:
    steps = now.timed_step - since.timed_step
    if steps <= 0 or now.pid != since.pid or bool(now.gpu_step) != bool(since.gpu_step):
        return None
    wait_s = waited_s(since, now)
    own_s = now.stepped_s - since.stepped_s - wait_s - (now.paused_s - since.paused_s)
    return Part(
        steps,
        own_s / steps,
        (now.ran_s - since.ran_s) / steps,
        wait_s / steps,
        (now.delayed_s - since.delayed_s) / steps,
        (now.throttled_s - since.throttled_s) / steps,
        (now.stopped_s - since.stopped_s) / steps,
        (now.tokens - since.tokens) / steps,
        (now.garbage_s - since.garbage_s) / steps,
    )


def cause(mine: Part, peers: Part, *, gpu: bool = False) -> Cause:
    """What most of the time goes into that the rank takes longer than its peers."""
    needed_s = EXPLAINS * (mine.own_s - peers.own_s)
    if mine.stopped_s - peers.stopped_s >= needed_s > 0:
        return Cause.STOPPED
    if mine.throttled_s - peers.throttled_s >= needed_s > 0:
        return Cause.CAPPED
    if mine.garbage_s - peers.garbage_s >= needed_s > 0:
        return Cause.GARBAGE
    if _crowded_s(mine, peers) >= needed_s > 0:
        return Cause.CROWDED
    if gpu or _more_cpu(mine, peers):
        share = mine.own_s / peers.own_s - 1 if peers.own_s > 0 else 0.0
        more = peers.tokens > 0 and mine.tokens / peers.tokens - 1 >= EXPLAINS * share
        return Cause.MORE if more else Cause.GPU if gpu else Cause.COMPUTES
    return Cause.CROWDED if mine.delayed_s - peers.delayed_s >= needed_s > 0 else Cause.STANDS


def _crowded_s(mine: Part, peers: Part) -> float:
    """How much longer it waits for a processor than its peers would with as much to compute."""
    more = mine.cpu_s / peers.cpu_s if peers.cpu_s > 0 else 1.0
    return mine.delayed_s - max(1.0, more) * peers.delayed_s


def _more_cpu(mine: Part, peers: Part) -> bool:
    """Whether CPU time explains it; as a ratio, for who wants more waits for processors longer."""
    if mine.cpu_s <= peers.cpu_s or peers.cpu_s <= 0 or peers.own_s <= 0:
        return False
    return log(mine.cpu_s / peers.cpu_s) >= EXPLAINS * log(max(mine.own_s / peers.own_s, 1.0))


def slow(
    rank: int, together: Sequence[int], seen: Compared, expected: Expectation, *, always: bool
) -> Finding:
    """`together`: the ranks of its node, where all of them are slow."""
    node, whole = expected.node_of()[rank], len(together) > 1
    who = f"rank {rank} on {node} holds its peers"
    its = "its"
    if whole:
        who, its = f"all {len(together)} ranks on {node} hold the others", f"rank {rank}'s"
    why = f"{seen.cause}{_where(seen)}"
    times = f"{seen.mine.own_s / max(seen.peers.own_s, 1e-9):.2f} times as long as its peers'"
    since = " since the attempt began" if always else ""
    return Finding(
        kind=Kind.SLOW,
        weight=Weight.REPORT,
        sign=SIGNS.get(seen.cause, ""),
        job=expected.job,
        epoch=expected.epoch,
        node=node,
        rank=None if whole else rank,
        summary=f"{who} up{since}: {its} own part of a step takes {times}; {why}",
        evidence=tuple(_evidence(rank, node, seen)),
    )


def _where(seen: Compared) -> str:
    return f", most of it in {seen.phase.name}" if seen.phase is not None else ""


def _evidence(rank: int, node: str, seen: Compared) -> Iterator[Evidence]:
    mine, peers = seen.mine, seen.peers
    text = ", ".join(
        f"{what} {_ms(own_s)} (peers {_ms(other_s)})"
        for what, own_s, other_s in (
            ("own part", mine.own_s, peers.own_s),
            ("CPU time in it", mine.cpu_s, peers.cpu_s),
            ("waits for peers", mine.waited_s, peers.waited_s),
            ("no processor free", mine.delayed_s, peers.delayed_s),
            ("held back by its cgroup", mine.throttled_s, peers.throttled_s),
            ("stopped", mine.stopped_s, peers.stopped_s),
            ("garbage collector", mine.garbage_s, peers.garbage_s),
        )
        if own_s or other_s
    )
    text = f"rank {rank}, milliseconds a step over {mine.steps} steps, {seen.count} peers: {text}"
    ratio = round(mine.own_s / max(peers.own_s, 1e-9), 3)
    yield evidence("detector", text, steps=mine.steps, ratio=ratio, cause=seen.cause.name.lower())
    if (phase := seen.phase) is not None:
        text = (
            f"in {phase.name} {_ms(phase.mine_s)} milliseconds a step, peers {_ms(phase.peers_s)}"
        )
        yield evidence("detector", text, phase=phase.name)
    if seen.stopped or seen.frame:
        state = "is stopped" if seen.stopped else "stands"
        where = f" at {seen.frame}" if seen.frame else ""
        yield evidence(f"daemon of {node}", f"rank {rank} {state}{where} as it is looked at")


def _ms(time_s: float) -> str:
    return f"{1e3 * time_s:.3g}"


def keeps_pace(
    expected: Expectation, who: str, node: str | None = None, rank: int | None = None
) -> Finding:
    return Finding(
        kind=Kind.KEEPS_PACE,
        weight=Weight.REPORT,
        job=expected.job,
        epoch=expected.epoch,
        node=node,
        rank=rank,
        summary=f"{who} keeps pace with its peers again",
    )
