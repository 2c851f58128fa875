"""One rank's spans: what is new in its ring, and which of it is due to be kept.

Used by `sampler`. Times are nanoseconds of this machine's monotonic clock.
"""

from collections import deque
from collections.abc import Iterable
from pathlib import Path

from holdfast.daemon.tracing.thinning import Purse
from holdfast.kit import procstat
from holdfast.protocol.outputs import Output
from holdfast.protocol.spans import PAUSE, STEP
from holdfast.telemetry.trace.ring import Raw, SpanReader

WINDOW_NS = 10_000_000_000
"""All spans are kept for so long before an incident and after it: a recovery here takes one second,
and what led to it is seen in some steps."""
RECENT = 8_192
"""Of one rank are remembered, until they are out of the window."""
SILENT_NS = 500_000_000
"""A pulse that is older: is the process still there? Its period is a tenth of that."""
OPEN_NS = 1_000_000_000
"""What is under way is told from this age on, or from the usual time of some steps, and again each
time it has grown by half."""
OPEN_STEPS, GROWS = 3, 1.5
STALL_NS, STALL_STEPS = 2_000_000_000, 8
"""A step that takes as long as so many usual ones opens a window by itself."""
STOPPED, SILENT = "stopped", "silent"
"""Names of pauses: a process that was stopped, as by SIGSTOP, and one of which no thread runs but
what holds Python's lock."""
USUAL_SHARE = 0.1
"""Of a new step in the usual one."""


class RankSpans:
    """Raises `RingError` or `OSError` where its ring cannot be read."""

    def __init__(self, path: Path, said: Output, now_ns: int) -> None:
        self.ring = SpanReader(path)
        self.job, self.rank, self.attempt = said.job, self.ring.rank, said.attempt
        self.folder = Path(said.traces)
        self.began_ns = now_ns
        self.purse = Purse(now_ns / 1e9)
        self.gone = False
        self._stat = procstat.stat(self.ring.pid)
        self._lived_ns = now_ns
        self._recent: deque[Raw] = deque(maxlen=RECENT)
        self._sampled: list[Raw] = []
        self._whole: list[Raw] = []
        self._whole_until_ns = now_ns + WINDOW_NS  # how it begins
        self._usual_ns = 0.0
        self._stalls = False
        self._told: dict[tuple[object, ...], int] = {}  # under way, and at which age it was
        self._still = ""  # why its pulse does not come
        self._dropped = 0

    def look(self, now_ns: int) -> None:
        """Take in what is new."""
        if self.gone:
            return
        self.purse.fill(now_ns / 1e9)
        self.gone = self._has_ended(now_ns)
        for raw in self.ring.read(last=self.gone):
            self._take(raw, now_ns)
        self._look_at_open(now_ns)
        if self.gone:
            self.open_window(now_ns)

    def open_window(self, now_ns: int) -> None:
        """All of the last seconds is kept, and all of the next."""
        since_ns = now_ns - WINDOW_NS
        self._whole += (raw for raw in self._recent if raw.began_ns + raw.took_ns >= since_ns)
        self._recent.clear()
        self._whole_until_ns = now_ns + WINDOW_NS

    def due(self, *, whole: bool) -> list[Raw]:
        """What is to be kept and was not handed out yet."""
        taken = self._whole if whole else self._sampled
        if whole:
            self._whole = []
        else:
            self._sampled = []
        return taken

    @property
    def waiting(self) -> tuple[int, int]:
        """How many of both are due: in whole windows, and sampled."""
        return len(self._whole), len(self._sampled)

    def dropped(self) -> int:
        """Spans that were overwritten unread since the last call."""
        before, self._dropped = self._dropped, self.ring.dropped
        return self._dropped - before

    def close(self) -> None:
        self.ring.close()

    def _take(self, raw: Raw, now_ns: int) -> None:
        if raw.kind == STEP:
            self._usual_ns += USUAL_SHARE * (raw.took_ns - self._usual_ns)
            self._stalls = False
        was_told = self._told.pop(_key(raw), None) is not None
        if now_ns < self._whole_until_ns or was_told:
            self._whole.append(raw)
        elif self.purse.takes(raw.step, whole_step=raw.kind == STEP):
            self._sampled.append(raw)
        else:
            self._recent.append(raw)

    def _look_at_open(self, now_ns: int) -> None:
        """What is under way for long: a rank that waits shows it while it waits."""
        seen_ns = self._lived_ns if self.gone else now_ns
        after_ns = max(OPEN_NS, OPEN_STEPS * self._usual_ns)
        for raw in (*self.ring.opens(), *self._stands()):
            age_ns = seen_ns - raw.began_ns
            before_ns = self._told.get(_key(raw), 0)
            due_ns = GROWS * before_ns if before_ns else after_ns
            if age_ns <= before_ns or (age_ns < due_ns and not self.gone):
                continue
            self._told[_key(raw)] = age_ns
            self._whole.append(raw._replace(took_ns=age_ns, waited_ns=min(raw.waited_ns, age_ns)))
            if raw.kind == STEP and age_ns > max(STALL_NS, STALL_STEPS * self._usual_ns):
                self._stall(now_ns)

    def _stands(self) -> list[Raw]:
        """That it stands still itself, since its last pulse."""
        since_ns = self.ring.pulsed_ns
        if not self._still or not since_ns:  # it still imports, and has not had a pulse
            return []
        return [Raw(PAUSE, self._still, 0, 0, 0, since_ns, 0, 0, ended=False)]

    def _stall(self, now_ns: int) -> None:
        if not self._stalls:
            self._stalls = True
            self.open_window(now_ns)

    def _has_ended(self, now_ns: int) -> bool:
        """Whether its process is gone; asked once its pulse is late, for a stopped one is there."""
        if now_ns - self.ring.pulsed_ns < SILENT_NS:
            self._lived_ns = now_ns
            self._still = ""
            return False
        seen = procstat.stat(self.ring.pid)
        first = self._stat
        if seen is not None and seen.acts and first and seen.started_ticks == first.started_ticks:
            self._lived_ns = now_ns
            if self._still != STOPPED:  # nor does one run that is killed while it is stopped
                self._still = STOPPED if seen.state in "Tt" else SILENT
            return False
        return True


def _key(raw: Raw) -> tuple[object, ...]:
    return raw.kind, raw.name, raw.group, raw.number, raw.began_ns


def by_begin(raws: Iterable[Raw]) -> list[Raw]:
    return sorted(raws, key=lambda raw: raw.began_ns)
