"""What is known of one job's epoch: its ranks' newest progress, and its pace. Pure.

Used by `Watch`, which feeds it heartbeats. Times are the driver's; ages that nodes report are
durations and are only ever added to the time at which they were heard.
"""

import math
from collections.abc import Iterator

import msgspec

from holdfast.driver.watch import curve, doubt, loss_again
from holdfast.driver.watch import pace as pacing
from holdfast.driver.watch.doubt import Jumps
from holdfast.driver.watch.kept import Groups, kept
from holdfast.driver.watch.model import (
    RELATIVE,
    Expectation,
    JobFigures,
    JobProgress,
    Ranks,
    RankView,
)
from holdfast.driver.watch.pace import Pace
from holdfast.driver.watch.standstill_manner import BUSY_SHARE, Cpu, works
from holdfast.protocol.messages import Heartbeat, Observed, RankProgress

QUIET_S = 1.0
"""Nothing moves in any ring: at ten samples a second this is ten that agree."""
MISSED_PERIODS = 3
"""Heartbeats of a node that are missing before what its ranks were counts for nothing."""
MOVES_S = 5.0
"""Ranks of which no step was ever seen train, once their collectives have gone on for so long: what
a rank does before its first step, e.g. meeting the others, is mostly over sooner."""


FASTER = 0.95
"""Of the best step time that was told, for a better one to be told: an entry of the journal each,
so 135 of them while a job becomes a thousand times as fast."""
LEAST_COULD = 0.05
"""Share of a heartbeat that a rank could have had, at least: who hardly ran tells nothing."""
RHYTHM = 48
"""Heartbeats with new collectives from which on they have a rhythm: some half a minute of them."""


class RankSeen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A rank's newest progress and when it was heard. `cpu_share` is of the last heartbeat, of one
    core; `had_share` of the time that it could have had one. `worked_s` is the last one at which
    that was work; None: there was none."""

    progress: RankProgress
    heard_s: float
    uptime_s: float
    cpu_share: float = 0.0
    had_share: float = 0.0
    worked_s: float | None = None


class JobSeen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one job. `ranks`, `gpus_bytes`, `hot`, `groups`, `starts`, `ended` and `jumps` are
    filled in place: a copy for each heartbeat of many nodes would cost more than all detectors.
    """

    expected: Expectation
    began_s: float  # when this attempt was first expected
    places: dict[int, str] = {}  # node of each rank
    ranks: dict[int, RankSeen] = {}
    gpus_bytes: dict[str, int] = {}  # by node, in use of the GPU of which most is
    hot: set[str] = set()  # nodes with a GPU that is slowed by heat
    groups: Groups = {}  # as ranks told last of each
    jumps: Jumps = {}
    unheard_s: float = -math.inf  # nobody listened until then: no time is compared with an earlier
    pace: Pace = Pace()
    rhythm: Pace = Pace()  # of collectives, for a job of which no step was ever seen
    starts: dict[str, float] = {}  # when its slowest rank was past each stage of its start
    ended: dict[str, tuple[int, float]] = {}  # by node: what its ranks had done as one died; when
    told_s: float | None = None  # `pace.best_s`, as it was told last
    progressed: bool = False
    saved: int = 0  # of ranks that count from their own start: how far its script had saved, and
    furthest: int = 0  # how far any earlier attempt came, both from the job's beginning
    begun: bool = False  # that its script began again there was told
    moving_s: float | None = None  # since when all ranks have done collectives
    stepless: bool = False  # that they go on without a step was told
    period_s: float = 0.5

    def heard_step(self) -> int | None:
        """The last step that all ranks have completed, by their heartbeats; None before all ranks
        are known."""
        if len(self.ranks) < len(self.expected.seats):
            return None
        return min(seen.progress.step for seen in self.ranks.values())

    def completed_step(self) -> int | None:
        """The same, where ranks died as well: how far those of their node were is known better.

        A node that says nothing more was as far as its pace took it from its last heartbeat to the
        first death, and no further than others. It may be far behind them: not each job has steps
        that need all ranks.
        """
        step = self.heard_step()
        if step is None or not self.ended:
            return step
        (_, died_s), most = next(iter(self.ended.values())), max(self.ended.values())[0]
        step_s = self.pace.median_s
        at = (
            own[0]
            if (own := self.ended.get(self.places.get(rank, "")))
            else min(most, seen.progress.step + _steps(died_s - seen.heard_s, step_s))
            for rank, seen in self.ranks.items()
        )
        return max(step, min(at))


def _steps(time_s: float, step_s: float | None) -> int:
    return max(0, int(time_s / step_s)) if step_s else 0


def expect(before: JobSeen | None, expected: Expectation, now: float) -> JobSeen:
    """A new epoch of the job; its pace is kept."""
    places = expected.node_of()
    if before is None:
        best_s = expected.best_step_s
        return JobSeen(
            expected=expected,
            began_s=now,
            places=places,
            ranks={},
            ended={},
            pace=Pace(best_step=expected.best_step or 0, best_s=best_s),
            told_s=best_s,
        )
    if before.expected.epoch == expected.epoch:
        return msgspec.structs.replace(before, expected=expected, places=places)
    pace = pacing.known(before.pace, before.completed_step() or 0)
    before = msgspec.structs.replace(before, pace=pace)
    return JobSeen(
        expected=expected,
        began_s=now,
        places=places,
        ranks={},
        gpus_bytes={},
        hot=set(),
        ended={},
        pace=pacing.restarted(before.pace, expected.best_step or 0),
        told_s=before.told_s,
        saved=before.saved + saved(before),
        furthest=max(before.furthest, before.saved + _own_steps(before)),
    )


def heard(job: JobSeen, beat: Heartbeat, now: float) -> None:
    """Take in what a node's heartbeat says of the ranks that sit there, in this epoch."""
    if beat.gpus:
        _gpus(job, beat)
    for progress in beat.ranks:
        mine = (progress.job, progress.epoch) == (job.expected.job, job.expected.epoch)
        if mine and job.places.get(progress.rank) == beat.node:
            before = job.ranks.get(progress.rank)
            if before is not None and before.heard_s > job.unheard_s:
                _compare(job, beat, before, now)
            _starts(job, progress, before, now)
            job.ranks[progress.rank] = _rank(before, kept(job.groups, progress), beat.uptime_s, now)


def _gpus(job: JobSeen, beat: Heartbeat) -> None:
    if used := [each.memory_bytes for each in beat.gpus if each.memory_bytes is not None]:
        job.gpus_bytes[beat.node] = max(used)
    if any(each.slowed_by_heat for each in beat.gpus):
        job.hot.add(beat.node)
    else:
        job.hot.discard(beat.node)


def _starts(job: JobSeen, progress: RankProgress, before: RankSeen | None, now: float) -> None:
    """When the last rank had met the others, loaded its state, and done its first step."""
    if before is not None and "step" in before.progress.starts_s:
        return
    for name, age_s in progress.starts_s.items():
        job.starts[name] = max(now - age_s, job.starts.get(name, 0.0))


def _compare(job: JobSeen, beat: Heartbeat, before: RankSeen, now: float) -> None:
    """The node's clock and the driver's, since the heartbeat before; a new daemon counts anew."""
    if (node_s := beat.uptime_s - before.uptime_s) > 0:
        doubt.noted(job.jumps, beat.node, now - before.heard_s, node_s, now)


def ended(job: JobSeen, seen: Observed, now: float) -> None:
    """Take in how far the ranks of a node were when one of them died: heartbeats are older."""
    if (seen.job, seen.epoch) != (job.expected.job, job.expected.epoch):
        return
    dead = (each for each in seen.ranks if each.all_step is not None)
    first = min(dead, key=lambda each: each.order, default=None)
    if first is not None and relative(job) == (first.saved is not None):
        job.ended.setdefault(seen.node, (first.all_step or 0, now))


def relative(job: JobSeen) -> bool:
    """Whether some rank counts its steps from its own start."""
    return any(RELATIVE in seen.progress.partial for seen in job.ranks.values())


def _own_steps(job: JobSeen) -> int:
    """Those of an attempt whose ranks count from their own start; 0 where they do not."""
    return job.pace.step if relative(job) else 0


def saved(job: JobSeen) -> int:
    """How many steps of an attempt its script had saved when it was last heard of, where its ranks
    count them from their own start."""
    steps = [seen.progress.step - seen.progress.unsaved for seen in job.ranks.values()]
    return min(max(steps, default=0), _own_steps(job))


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks that count from their own start have completed a first step again: see `JobSeen`."""

    saved: int
    furthest: int


class Further(msgspec.Struct, frozen=True, kw_only=True):
    """The job went further than ever. No `step` where its ranks count from their own start, or are
    not seen to make any (`stepless`).
    """

    step: int | None = None
    before: int | None = None  # highest step of earlier epochs
    stepless: bool = False


class Faster(msgspec.Struct, frozen=True, kw_only=True):
    """Its steps take less time than was told before."""

    best_step_s: float


Told = Begun | Further | Faster


def stepped(job: JobSeen, now: float, period_s: float) -> tuple[JobSeen, tuple[Told, ...]]:
    """Take note of steps that all ranks have completed by now; once an epoch each: its script began
    again, and it went further. And that it is faster than ever.
    """
    step = job.heard_step()
    if step is None or step <= job.pace.step:
        job, moved = _moved(msgspec.structs.replace(job, period_s=period_s), now)
        return job, (moved,) if moved is not None else ()
    if not job.begun and _has_read_nothing(job):
        job = msgspec.structs.replace(job, saved=0)
    pace = pacing.advanced(job.pace, step, _tokens(job), now)
    held = loss_again.in_question(job.expected, (each.progress for each in job.ranks.values()))
    told = () if held else tuple(_told(job, step))
    if held:
        pace = msgspec.structs.replace(pace, best_step=job.pace.best_step)
    progressed = job.progressed or any(isinstance(each, Further) for each in told)
    job = msgspec.structs.replace(
        job, pace=pace, period_s=period_s, begun=True, progressed=progressed
    )
    if pace.best_s is None or not _worth_telling(pace.best_s, job.told_s):
        return job, told
    job = msgspec.structs.replace(job, told_s=pace.best_s)
    return job, (*told, Faster(best_step_s=pace.best_s))


def _worth_telling(best_s: float, told_s: float | None) -> bool:
    return told_s is None or best_s < FASTER * told_s


def _has_read_nothing(job: JobSeen) -> bool:
    """Whether ranks that count from their own start made their first step without a load that was
    seen, as saves are: whatever the script had saved, it began at 0.
    """
    return bool(job.furthest) and relative(job) and "restore" not in job.starts


def _told(job: JobSeen, step: int) -> Iterator[Begun | Further]:
    """Ranks that number their steps count from their own start until they tell the first number."""
    own, furthest = relative(job), max(job.furthest, job.expected.best_step or 0)
    if own and job.furthest and not job.begun:
        yield Begun(saved=job.saved, furthest=job.furthest)
    if own and not job.progressed and job.saved + step > furthest:
        yield Further()
    elif not (own or job.progressed) and step > job.pace.best_step:
        yield Further(step=step, before=job.pace.best_step)


def _moved(job: JobSeen, now: float) -> tuple[JobSeen, Further | None]:
    """Once an epoch, for a job of which no step was ever seen: that it goes on nevertheless."""
    if job.pace.best_step or job.pace.step or job.heard_step() is None:
        return job, None
    done = min(_collectives(seen.progress) for seen in job.ranks.values())
    job = msgspec.structs.replace(job, rhythm=pacing.advanced(job.rhythm, done, 0, now))
    if job.stepless:
        return job, None
    if job.moving_s is None:
        counts = (sum(each.done for each in seen.progress.groups) for seen in job.ranks.values())
        return msgspec.structs.replace(job, moving_s=now if all(counts) else None), None
    if now - job.moving_s < MOVES_S or quiet_s(job, now) > QUIET_S:
        return job, None
    return msgspec.structs.replace(job, stepless=True), Further(stepless=True)


def _collectives(seen: RankProgress) -> int:
    """How many the rank has done, or enqueued where what is done is not told."""
    counts = (each.enqueued if "done" in seen.partial else each.done for each in seen.groups)
    return sum(counts)


def tempo(job: JobSeen) -> tuple[Pace, str]:
    """What the job is judged by: its steps; where there are none, the rhythm of its collectives,
    once they have gone on for longer than what a job does to meet and to prepare."""
    rhythm = job.rhythm
    steady = len(rhythm.step_times_s) >= RHYTHM
    return (rhythm, "collective") if job.pace.stepped_s is None and steady else (job.pace, "step")


def fresh(job: JobSeen, now: float) -> Ranks:
    """The ranks that are heard of, each as it is now if nothing has changed since it was heard.

    A rank whose node has missed heartbeats is not among them: what it was tells nothing.
    """
    return {rank: as_now(seen, now) for rank, seen in job.ranks.items() if is_fresh(job, seen, now)}


def is_fresh(job: JobSeen, seen: RankSeen, now: float) -> bool:
    return now - seen.heard_s <= MISSED_PERIODS * job.period_s


def as_now(seen: RankSeen, now: float) -> RankProgress:
    """If nothing has changed since it was heard."""
    by_s = max(0.0, now - seen.heard_s)
    return msgspec.structs.replace(seen.progress, **_older(seen.progress, by_s))


def _older(seen: RankProgress, by_s: float) -> dict[str, float | None]:
    return {
        "still_s": seen.still_s + by_s,
        "frame_still_s": seen.frame_still_s + by_s,
        "moved_s": None if seen.moved_s is None else seen.moved_s + by_s,
    }


def quiet_s(job: JobSeen, now: float) -> float:
    """How long no ring that is heard of has moved, as far as its samples told."""
    late_s = MISSED_PERIODS * job.period_s
    ages = [
        seen.progress.still_s
        for seen in job.ranks.values()
        if seen.progress.hooks and now - seen.heard_s <= late_s
    ]
    return min(ages, default=0.0)


def cpu(job: JobSeen, now: float) -> dict[int, Cpu]:
    """Of the ranks that use some, or worked."""
    return {
        rank: Cpu(
            busy=seen.had_share > BUSY_SHARE,
            worked_s=math.inf if seen.worked_s is None else now - seen.worked_s,
        )
        for rank, seen in job.ranks.items()
        if seen.worked_s is not None or seen.had_share > BUSY_SHARE
    }


def figures(job: JobSeen) -> JobFigures:
    """The job for the pages."""
    return JobFigures(
        job=job.expected.job,
        step=job.completed_step() or 0,
        relative=relative(job),
        best_step=job.pace.best_step,
        loss=_loss(job),
        tokens_per_s=job.pace.tokens_per_s,
        step_s=job.pace.median_s,
        best_step_s=job.pace.best_s,
    )


def progress(job: JobSeen, now: float) -> JobProgress:
    """The same, with all that is told of each rank."""
    views = (_view(seen, job.places.get(rank, ""), now) for rank, seen in sorted(job.ranks.items()))
    return JobProgress(**msgspec.structs.asdict(figures(job)), ranks=tuple(views))


def pids(job: JobSeen) -> dict[str, dict[int, int]]:
    """Of ranks that have one, by node and rank."""
    found: dict[str, dict[int, int]] = {}
    for rank, seen in sorted(job.ranks.items()):
        if seen.progress.pid:
            found.setdefault(job.places.get(rank, ""), {})[rank] = seen.progress.pid
    return found


def _loss(job: JobSeen) -> float | None:
    """Of the rank that was first heard of last."""
    own = (seen.progress.loss for seen in reversed(job.ranks.values()))
    return next((loss for loss in own if loss is not None), None)


def sampled(job: JobSeen) -> curve.Moment:
    """The job for its curves."""
    own = (seen.progress.memory_bytes for seen in job.ranks.values())
    memory_bytes = max(own, default=0)
    return curve.Moment(
        step=job.completed_step(),
        loss=_loss(job),
        step_s=job.pace.median_s,
        memory_bytes=memory_bytes or None,
        gpu_memory_bytes=max(job.gpus_bytes.values(), default=None),
    )


def _view(seen: RankSeen, node: str, now: float) -> RankView:
    progress = seen.progress
    return RankView(
        rank=progress.rank,
        node=node,
        step=progress.step,
        pid=progress.pid,
        phase=progress.phase,
        loss=progress.loss,
        process=progress.process,
        still_s=progress.still_s + now - seen.heard_s,
        hooks=progress.hooks,
    )


def _rank(before: RankSeen | None, progress: RankProgress, uptime_s: float, now: float) -> RankSeen:
    if before is not None and before.progress.pid != progress.pid:
        before = None
    share, had, worked_s = (0.0, 0.0, None) if before is None else _used(before)
    if before is not None and uptime_s > before.uptime_s:
        took_s = uptime_s - before.uptime_s
        spent_s = max(0.0, progress.cpu_s - before.progress.cpu_s)
        delayed_s = progress.delayed_s - before.progress.delayed_s
        share, had = spent_s / took_s, _of_could(spent_s, took_s, delayed_s)
    return RankSeen(
        progress=progress,
        heard_s=now,
        uptime_s=uptime_s,
        cpu_share=share,
        had_share=had,
        worked_s=now if works(progress, had) else worked_s,
    )


def _used(seen: RankSeen) -> tuple[float, float, float | None]:
    return seen.cpu_share, seen.had_share, seen.worked_s


def _of_could(spent_s: float, took_s: float, delayed_s: float) -> float:
    """CPU as a share of what could be had: who spins on a loaded machine spins."""
    could_s = took_s - min(max(0.0, delayed_s), took_s)
    return spent_s / max(could_s, spent_s, LEAST_COULD * took_s)


def _tokens(job: JobSeen) -> int:
    """Tokens of all replicas: each is told by all ranks of a replica, and counted once."""
    dp = job.expected.topology.dp
    by_rank = [seen.progress.tokens for seen in job.ranks.values()]
    return sum(by_rank) * dp // len(by_rank) if by_rank else 0
