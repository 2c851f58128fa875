"""What ranks did in the last seconds, by their clocks, of jobs that somebody looks at. Pure.

Used by `Watch`. Clocks of phases are told since a rank's start, and kept of nobody (`kept`): of
12,288 ranks they would be some 40 MB for a picture that is seldom looked at. So the first question
about a job begins to keep them, and a minute without another ends it; until then a heartbeat costs
one look into an empty table.
"""

from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from holdfast.driver.watch import slow_words
from holdfast.driver.watch.jobs import JobSeen
from holdfast.protocol.messages import Heartbeat, RankProgress

WINDOW_S = 3.0
"""What is shown is of at least so long, once it was looked at for so long: a glance's length."""
STEPS = 8
"""And of so many steps: a phase under way is counted when it ends, so that of each one may lack."""
LONGEST_S = 300.0
"""And of no more than twice this, however long a step is."""
FORGOTTEN_S = 60.0
"""After the last question nothing is kept any more: whoever looks asks once a second."""


class Moment(msgspec.Struct, frozen=True, gc=False):
    """A rank's clocks, and when they were heard."""

    at_s: float
    seen: RankProgress


class Lived(msgspec.Struct, gc=False):
    """One rank: an earlier moment, one that takes its place when the window is over, the newest."""

    earlier: Moment
    middle: Moment
    newest: Moment


class Spent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Where a rank's time went: seconds a step, over `window_s`."""

    window_s: float
    steps: int
    step_s: float
    own_s: float = 0.0  # neither waiting for peers nor pausing
    waits_s: float = 0.0
    cpu_s: float = 0.0  # of the thread that trains
    pauses_s: float = 0.0
    delayed_s: float = 0.0  # no processor was free
    throttled_s: float = 0.0
    stopped_s: float = 0.0
    wall_s: dict[str, float] = {}  # by phase
    thread_s: dict[str, float] = {}


class Lately:
    """Of all jobs that are looked at."""

    def __init__(self) -> None:
        self._asked_s: dict[str, float] = {}
        self._lived: dict[str, dict[int, Lived]] = {}
        self._epochs: dict[str, int] = {}

    def asked(self, job: JobSeen, now: float) -> Callable[[int], Spent | None]:
        """What tells of a rank where its time went, None where it has done no step meanwhile; from
        now on it is kept, until nobody has asked for a minute."""
        name = job.expected.job
        self._asked_s[name] = now
        lived = self._lived.setdefault(name, {})
        if self._epochs.get(name) != job.expected.epoch:
            lived.clear()
            self._epochs[name] = job.expected.epoch

        def of(rank: int) -> Spent | None:
            known = lived.get(rank)
            return spent(known) if known is not None else None

        return of

    def heard(self, job: JobSeen, beat: Heartbeat, now: float) -> None:
        """Take in a heartbeat of a node that has ranks of the job."""
        name = job.expected.job
        lived = self._lived.get(name)
        if lived is None:
            return
        if now - self._asked_s[name] > FORGOTTEN_S:
            self.drop(name)
            return
        window_s = _window_s(job)
        for seen in _own(job, beat):
            _note(lived, Moment(now, _light(seen)), window_s)

    def drop(self, job: str) -> None:
        """Of the job nothing is to be known any more."""
        for known in (self._asked_s, self._lived, self._epochs):
            known.pop(job, None)


def _own(job: JobSeen, beat: Heartbeat) -> Iterator[RankProgress]:
    mine = job.expected.job, job.expected.epoch
    for seen in beat.ranks:
        if (seen.job, seen.epoch) == mine and job.places.get(seen.rank) == beat.node:
            yield seen


def _window_s(job: JobSeen) -> float:
    return min(LONGEST_S, max(WINDOW_S, STEPS * (job.pace.median_s or 0.0)))


def _light(seen: RankProgress) -> RankProgress:
    """Without what its clocks do not need."""
    return replace(seen, groups=(), peers=(), recent=(), starts_s={})


def _note(lived: dict[int, Lived], moment: Moment, window_s: float) -> None:
    known = lived.get(moment.seen.rank)
    if known is None or known.newest.seen.pid != moment.seen.pid:
        lived[moment.seen.rank] = Lived(moment, moment, moment)
        return
    known.newest = moment
    if moment.at_s - known.middle.at_s >= window_s:
        known.earlier, known.middle = known.middle, moment


def spent(lived: Lived) -> Spent | None:
    """Between its earlier moment and the newest; None where no step ended in between."""
    before, now = lived.earlier.seen, lived.newest.seen
    steps = now.timed_step - before.timed_step
    window_s = lived.newest.at_s - lived.earlier.at_s
    if steps <= 0 or window_s <= 0:
        return None
    told = before.stepped_s > 0
    took_s = now.stepped_s - before.stepped_s if told else window_s
    waits_s = slow_words.waited_s(before, now) if told else 0.0
    pauses_s = now.paused_s - before.paused_s
    return Spent(
        window_s=window_s,
        steps=steps,
        step_s=took_s / steps,
        own_s=max(0.0, took_s - waits_s - pauses_s) / steps if told else 0.0,
        waits_s=waits_s / steps,
        cpu_s=(now.ran_s - before.ran_s if told else now.cpu_s - before.cpu_s) / steps,
        pauses_s=pauses_s / steps,
        delayed_s=(now.delayed_s - before.delayed_s) / steps,
        throttled_s=(now.throttled_s - before.throttled_s) / steps,
        stopped_s=(now.stopped_s - before.stopped_s) / steps,
        wall_s=_by_phase(before.wall_s, now.wall_s, steps),
        thread_s=_by_phase(before.thread_s, now.thread_s, steps),
    )


def _by_phase(before: dict[str, float], now: dict[str, float], steps: int) -> dict[str, float]:
    return {name: (time_s - before.get(name, 0.0)) / steps for name, time_s in now.items()}
