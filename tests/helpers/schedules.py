"""Executes training schedules in virtual time and says what each rank's ring would show.

Written without a look at the analyser: ranks are programs of operations (compute, enqueue a
collective, wait for it, send, receive), run until nothing can move. Nobody here knows who waits for
whom; it follows from what the programs do. A rank may be held up at any of its operations.
"""

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.protocol.messages import GroupProgress, PeerProgress, RankProgress

Op = tuple[object, ...]
"""("compute", s) | ("start", group) | ("wait", group, n) | ("all", group) | ("send", peer)
| ("isend", peer) | ("recv", peer) | ("step",)"""


@dataclass
class Rank:
    number: int
    program: Iterator[Op]
    op: Op | None = None
    counted: bool = False
    busy_until_s: float = 0.0
    stuck: bool = False
    enqueued: dict[str, int] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)
    changed_s: float = 0.0
    step: int = 0
    in_wait: bool = False


class World:
    """Ranks that run their programs; `hold(rank, at)` stops one before its at-th operation."""

    def __init__(self, programs: list[Iterator[Op]], groups: dict[str, tuple[int, ...]]) -> None:
        self.groups = groups
        self.ranks = [Rank(number, program) for number, program in enumerate(programs)]
        self.now_s = 0.0
        self.held: dict[int, int] = {}
        self.taken = [0] * len(programs)

    def hold(self, rank: int, at: int) -> None:
        self.held[rank] = at

    def run(self) -> None:
        """Until nothing can move any more."""
        times: list[float] = [0.0]
        while times:
            self.now_s = heapq.heappop(times)
            moved = True
            while moved:
                moved = False
                for rank in self.ranks:
                    while self._advance(rank, times):
                        moved = True

    def _advance(self, rank: Rank, times: list[float]) -> bool:
        if rank.stuck or rank.busy_until_s > self.now_s:
            return False
        if rank.op is None:
            rank.op = next(rank.program, None)
            rank.counted = False
            if rank.op is None:
                return False
            self.taken[rank.number] += 1
            if self.held.get(rank.number) == self.taken[rank.number]:
                rank.stuck = True
                return False
        return self._try(rank, rank.op, times)

    def _try(self, rank: Rank, op: Op, times: list[float]) -> bool:
        kind = op[0]
        if kind == "compute":
            rank.busy_until_s = self.now_s + float(op[1])  # type: ignore[arg-type]
            heapq.heappush(times, rank.busy_until_s)
        elif kind == "step":
            rank.step += 1
            rank.changed_s = self.now_s
        else:
            self._count(rank, op)
            if not self._over(rank, op):
                rank.in_wait = kind in ("wait", "all", "send", "recv")
                return False
        rank.in_wait = False
        rank.op = None
        return True

    def _count(self, rank: Rank, op: Op) -> None:
        if rank.counted or op[0] == "wait":
            return
        rank.counted = True
        rank.changed_s = self.now_s
        if op[0] in ("start", "all"):
            rank.enqueued[str(op[1])] = rank.enqueued.get(str(op[1]), 0) + 1
        elif op[0] in ("send", "isend"):
            rank.sent[int(op[1])] = rank.sent.get(int(op[1]), 0) + 1  # type: ignore[call-overload]
        else:
            rank.received[int(op[1])] = rank.received.get(int(op[1]), 0) + 1  # type: ignore[call-overload]

    def _over(self, rank: Rank, op: Op) -> bool:
        me = rank.number
        if op[0] in ("start", "isend"):
            return True
        if op[0] in ("all", "wait"):
            group = str(op[1])
            number = int(op[2]) if op[0] == "wait" else rank.enqueued[group]  # type: ignore[call-overload]
            return self.done(group) >= number
        other = self.ranks[int(op[1])]  # type: ignore[call-overload]
        if op[0] == "send":  # a large message: over once it is taken
            return other.received.get(me, 0) >= rank.sent[other.number]
        return other.sent.get(me, 0) >= rank.received[other.number]

    def done(self, group: str) -> int:
        return min(self.ranks[rank].enqueued.get(group, 0) for rank in self.groups[group])

    # ------------------------------------------------------------ what the rings show

    def rings(self, rng: random.Random, *, marks_waits: bool = True) -> dict[int, RankProgress]:
        return {
            rank.number: RankProgress(
                rank=rank.number,
                epoch=1,
                hooks=True,
                step=rank.step,
                # The daemon samples ten times a second, and heartbeats are on their way.
                still_s=5.0 + self.now_s - rank.changed_s + rng.uniform(0.0, 0.1),
                silent_s=rng.uniform(0.0, 0.1),
                waiting=rank.in_wait and marks_waits,
                groups=tuple(
                    GroupProgress(
                        members=number,
                        kind="all_reduce",
                        enqueued=rank.enqueued.get(name, 0),
                        done=min(self.done(name), rank.enqueued.get(name, 0)),
                        ranks=members,
                    )
                    for number, (name, members) in enumerate(self.groups.items())
                    if rank.number in members
                ),
                peers=tuple(
                    PeerProgress(
                        peer=peer,
                        sends=rank.sent.get(peer, 0),
                        receives=rank.received.get(peer, 0),
                    )
                    for peer in sorted(rank.sent.keys() | rank.received.keys())
                ),
            )
            for rank in self.ranks
        }


def data_parallel(rank: int, steps: int, buckets: int) -> Iterator[Op]:
    """Asynchronous buckets during the backward pass, all waited for at its end (DDP)."""
    del rank
    count = 0
    for _ in range(steps):
        yield ("compute", 0.3)
        for _ in range(buckets):
            yield ("compute", 0.05)
            yield ("start", "world")
            count += 1
        yield ("wait", "world", count)
        yield ("step",)


@dataclass(frozen=True)
class Stage:
    """One rank's place in a pipeline, and its groups."""

    number: int
    stages: int
    up: int
    down: int
    tensor: str
    data: str

    def forward(self) -> Iterator[Op]:
        if self.number > 0:
            yield ("recv", self.up)
        yield ("compute", 0.02)
        yield ("all", self.tensor)
        if self.number < self.stages - 1:
            yield ("isend", self.down)

    def backward(self) -> Iterator[Op]:
        if self.number < self.stages - 1:
            yield ("recv", self.down)
        yield ("compute", 0.04)
        yield ("all", self.tensor)
        if self.number > 0:
            yield ("isend", self.up)

    def step(self, micro: int) -> Iterator[Op]:
        """1F1B (PTD-P, SC'21): warm-up forwards, one forward one backward, cool-down."""
        warm_up = min(self.stages - self.number - 1, micro)
        for _ in range(warm_up):
            yield from self.forward()
        for _ in range(micro - warm_up):
            yield from self.forward()
            yield from self.backward()
        for _ in range(warm_up):
            yield from self.backward()

    def program(self, micro: int, steps: int) -> Iterator[Op]:
        """Steps with two asynchronous buckets each; activations are sent without waiting."""
        for step in range(steps):
            yield from self.step(micro)
            yield ("start", self.data)
            yield ("start", self.data)
            yield ("compute", 0.02)
            yield ("wait", self.data, 2 * (step + 1))
            yield ("step",)


def three_d(tp: int, pp: int, dp: int, steps: int) -> World:
    """Ranks in order tp, dp, pp (fastest first), as protocol.topology has it."""

    def number(t: int, d: int, p: int) -> int:
        return t + tp * (d + dp * p)

    groups: dict[str, tuple[int, ...]] = {}
    programs: dict[int, Iterator[Op]] = {}
    for p in range(pp):
        for d in range(dp):
            groups[f"tp{d}{p}"] = tuple(number(t, d, p) for t in range(tp))
        for t in range(tp):
            groups[f"dp{t}{p}"] = tuple(number(t, d, p) for d in range(dp))
    for p in range(pp):
        for d in range(dp):
            for t in range(tp):
                up, down = number(t, d, p - 1), number(t, d, p + 1)
                stage = Stage(p, pp, up, down, f"tp{d}{p}", f"dp{t}{p}")
                programs[number(t, d, p)] = stage.program(2 * pp, steps)
    return World([programs[rank] for rank in range(tp * pp * dp)], groups)
