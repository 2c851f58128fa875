"""All span rings of the node: read ten times a second, put on the driver's clock, handed on.

Called by the daemon's loop. Must not wait: who writes is another thread. What goes wrong here costs
traces, and neither a heartbeat nor a rank.
"""

import queue
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from holdfast.daemon.samplers.readings import read_bytes
from holdfast.daemon.tracing.clock import Clocks, Offset
from holdfast.daemon.tracing.rank import RankSpans, by_begin
from holdfast.daemon.tracing.writer import Writer
from holdfast.kit.clock import Clock
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.messages import Traced
from holdfast.protocol.outputs import Output
from holdfast.protocol.paths import NodePaths
from holdfast.telemetry.ring import RingError
from holdfast.telemetry.trace.ring import Raw
from holdfast.traces.block import Block
from holdfast.traces.model import Span
from holdfast.traces.sinks import OFF, Place

SCAN_NS = 500_000_000
"""Between two looks for new rings."""
SOONEST_NS, LATEST_NS = 1_000_000_000, 30_000_000_000
"""Between two blocks: a tenth of the attempt's age, in these bounds. Who watches a young job sees
it at once; of an old one a block a second would be all head and no spans."""
WHOLE_NS = 500_000_000
"""The same of all spans of a window."""
MOST_SPANS = 20_000
"""In one block."""
OUTPUT_BYTES = 1 << 20
JOBS = 256
"""Remembered of those that had seats here."""

_log = LazyLogger()


class Traces:
    """What this node's ranks did when. `url`: see `traces.sinks`."""

    def __init__(self, clock: Clock, node: str, paths: NodePaths, url: str, password: str) -> None:
        self._clock, self._node, self._paths = clock, node, paths
        self.clocks = Clocks()
        self._ranks: dict[Path, RankSpans] = {}
        self._refused: dict[Path, str] = {}
        self._jobs: dict[str, Traced] = {}
        self._whole: set[str] = set()
        self._scanned_ns, self._begins = 0, True
        self._flushed: dict[tuple[str, int, bool], int] = {}
        self._starts: dict[tuple[object, ...], float] = {}
        self._written: queue.SimpleQueue[tuple[Block, int]] = queue.SimpleQueue()
        self._off = url == OFF
        self._writer = Writer(url, password, self._wrote)

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Rings that cannot be read, and where traces are lost."""
        away = self._writer.away
        return (*self._refused.values(), *((away,) if away else ()))

    def follow(self, jobs: Iterable[Traced]) -> None:
        """What the driver says of jobs here."""
        told = {each.job: each for each in jobs}
        whole = {name for name, job in told.items() if job.whole}
        now_ns = time.monotonic_ns()
        for rank in self._ranks.values():
            if rank.job in whole - self._whole:
                rank.open_window(now_ns)
        self._whole = whole
        self._jobs |= told  # what has just ended here may still have something to tell
        while len(self._jobs) > JOBS:
            del self._jobs[next(iter(self._jobs))]

    def look(self) -> None:
        """Take in what is new, and hand on what is due."""
        if self._off:
            return
        now_ns = time.monotonic_ns()
        self._pay()
        if now_ns - self._scanned_ns >= SCAN_NS:
            self._scanned_ns = now_ns
            self._scan(now_ns)
        for path, rank in list(self._ranks.items()):
            try:
                rank.look(now_ns)
            except (RingError, OSError) as error:
                self._refuse(path, error)
                self._ranks.pop(path).close()
        self._flush(now_ns)

    def close(self) -> None:
        """Hand on all that there is, and all of the last seconds: the daemon ends."""
        now_ns = time.monotonic_ns()
        for rank in self._ranks.values():
            rank.open_window(now_ns)
        if not self._off:
            self._flush(now_ns, last=True)
        self._writer.close()

    # ------------------------------------------------------------ rings

    def _scan(self, now_ns: int) -> None:
        try:
            paths = set(self._paths.rings.glob("*.spans"))
        except OSError:
            paths = set()
        for path in self._ranks.keys() - paths:
            self._let_go(path, now_ns)
        for path in self._refused.keys() - paths:
            del self._refused[path]
        for path in sorted(paths - self._ranks.keys() - self._refused.keys()):
            self._open(path, now_ns)
        self._begins = False

    def _let_go(self, path: Path, now_ns: int) -> None:
        """Its ring was taken away: another attempt begins."""
        self._ranks[path].open_window(now_ns)
        self._flush(now_ns, last=True)
        gone = self._ranks.pop(path)
        gone.close()
        own = gone.job, gone.attempt, gone.rank
        self._starts = {key: at for key, at in self._starts.items() if key[:3] != own}
        self._flushed = {key: at for key, at in self._flushed.items() if key[:2] != own[:2]}

    def _open(self, path: Path, now_ns: int) -> None:
        try:
            said = read_bytes(self._paths.outputs / f"{path.stem}.json", OUTPUT_BYTES)
            output = msgspec.json.decode(said, type=Output)
            if output.traces:
                self._ranks[path] = RankSpans(path, output, now_ns)
                if self._begins:
                    self._ranks[path].ring.skip()
        except FileNotFoundError:
            return  # nobody has said yet whose it is: at the next look
        except (RingError, OSError, ValueError) as error:
            self._refuse(path, error)

    def _refuse(self, path: Path, error: Exception) -> None:
        why = str(error) if isinstance(error, RingError) else f"{path.name}: {error}"
        if path not in self._refused:
            _log.warning("spans are not read", ring=path.name, why=why)
        self._refused[path] = why

    # ------------------------------------------------------------ blocks

    def _flush(self, now_ns: int, *, last: bool = False) -> None:
        offset = self.clocks.offset(self._clock.monotonic_s())
        if offset is None:
            return  # nobody knows when that was, on the driver's clock
        attempts: dict[tuple[str, int], list[RankSpans]] = {}
        for rank in self._ranks.values():
            attempts.setdefault((rank.job, rank.attempt), []).append(rank)
        for (job, attempt), ranks in attempts.items():
            if (known := self._jobs.get(job)) is None:
                continue
            for whole in (True, False):
                if last or self._is_due(job, attempt, ranks, now_ns, whole=whole):
                    self._flushed[job, attempt, whole] = now_ns
                    self._hand_on(known, attempt, ranks, offset, now_ns, whole=whole)

    def _is_due(
        self, job: str, attempt: int, ranks: list[RankSpans], now_ns: int, *, whole: bool
    ) -> bool:
        waiting = sum(rank.waiting[0 if whole else 1] for rank in ranks)
        if not waiting:
            return False
        age_ns = now_ns - min(rank.began_ns for rank in ranks)
        pause_ns = WHOLE_NS if whole else min(LATEST_NS, max(SOONEST_NS, age_ns // 10))
        since_ns = now_ns - self._flushed.get((job, attempt, whole), 0)
        return since_ns >= pause_ns or waiting >= MOST_SPANS

    def _hand_on(
        self,
        job: Traced,
        attempt: int,
        ranks: list[RankSpans],
        offset: Offset,
        now_ns: int,
        *,
        whole: bool,
    ) -> None:
        spans = [
            self._span(rank, raw, job, offset)
            for rank in sorted(ranks, key=lambda each: each.rank)
            for raw in by_begin(rank.due(whole=whole))
        ]
        dropped = sum(rank.dropped() for rank in ranks) if whole else 0
        driver_s = now_ns / 1e9 + offset.ahead_s
        place = Place(ranks[0].folder, job.job, attempt, self._node, driver_s)
        for at in range(0, len(spans), MOST_SPANS):
            block = Block(
                job=job.job,
                node=self._node,
                submitted_s=job.submitted_s,
                error_s=offset.error_s,
                wall_s=self._clock.wall().timestamp(),
                dropped=dropped if at == 0 else 0,
                whole=whole,
                spans=spans[at : at + MOST_SPANS],
            )
            self._writer.put(place, block)

    def _span(self, rank: RankSpans, raw: Raw, job: Traced, offset: Offset) -> Span:
        return Span(
            rank=rank.rank,
            attempt=rank.attempt,
            node=self._node,
            kind=raw.kind,
            name=raw.name,
            group=raw.group,
            step=raw.step,
            start_s=self._start_s(rank, raw, job, offset),
            took_s=max(0, raw.took_ns) / 1e9,
            waited_s=max(0, raw.waited_ns) / 1e9,
            number=raw.number,
            ended=raw.ended,
        )

    def _start_s(self, rank: RankSpans, raw: Raw, job: Traced, offset: Offset) -> float:
        """One that is told again began when it did, whatever is known of the clocks since."""
        start_s = raw.began_ns / 1e9 + offset.ahead_s - job.submitted_s
        key = (rank.job, rank.attempt, rank.rank, *raw[:4], raw.began_ns)
        if not raw.ended:
            return self._starts.setdefault(key, start_s)
        return self._starts.pop(key, start_s)

    def _wrote(self, _place: Place, block: Block, octets: int) -> None:
        """In the writer's thread."""
        if not block.whole:
            self._written.put((block, octets))

    def _pay(self) -> None:
        while not self._written.empty():
            block, octets = self._written.get()
            counts: dict[tuple[int, int], int] = {}
            for span in block.spans:
                key = span.rank, span.attempt
                counts[key] = counts.get(key, 0) + 1
            for rank in self._ranks.values():
                if rank.job == block.job and (count := counts.get((rank.rank, rank.attempt))):
                    rank.purse.pay(octets * count / len(block.spans), count)
