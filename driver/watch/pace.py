"""How fast a job goes: its steps, their median time, tokens a second, its longest pause. Pure."""

from statistics import median

import msgspec

KEPT = 64
"""Step times that the median is of."""


SETTLED = 8
"""Step times from which on their median is taken for the job's speed."""


class Pace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State over a job's epochs. Times are the driver's; a step time is a mean over a heartbeat."""

    step: int = 0  # completed by all ranks
    best_step: int = 0
    stepped_s: float | None = None  # when `step` last grew, in this epoch
    step_times_s: tuple[float, ...] = ()
    best_s: float | None = None  # least median time of a step so far, over SETTLED times or more
    pause_s: float = 0.0  # longest standstill that ended by itself
    unseen: bool = False  # since then nobody looked for a while: the next step tells no time
    tokens: int = 0
    tokens_per_s: float | None = None

    @property
    def median_s(self) -> float | None:
        return median(self.step_times_s) if self.step_times_s else None


def restarted(pace: Pace, best_step: int) -> Pace:
    """A new epoch: what was measured of steps stays, where the job stands does not."""
    return msgspec.structs.replace(
        pace,
        step=0,
        best_step=max(pace.best_step, best_step),
        stepped_s=None,
        tokens=0,
        tokens_per_s=None,
    )


def unseen(pace: Pace) -> Pace:
    """Nobody looked for a while, and time stood: how long the next steps took is not known."""
    return msgspec.structs.replace(pace, unseen=True)


def known(pace: Pace, step: int) -> Pace:
    """All ranks had completed `step` when the epoch ended: when they did nobody saw."""
    step = max(pace.step, step)
    return msgspec.structs.replace(pace, step=step, best_step=max(pace.best_step, step))


def advanced(pace: Pace, step: int, tokens: int, now: float) -> Pace:
    """All ranks have completed `step`; `tokens` so far, over all replicas."""
    if step <= pace.step:
        return pace
    times, pause_s, speed = pace.step_times_s, pace.pause_s, pace.tokens_per_s
    # Between the first two sightings lies the first step, with all that comes only once.
    if pace.stepped_s is not None and now > pace.stepped_s and not pace.unseen:
        took_s = now - pace.stepped_s
        times = (*times, took_s / (step - pace.step))[-KEPT:]
        pause_s = max(pause_s, took_s)
        speed = _smooth(speed, max(0, tokens - pace.tokens) / took_s) if pace.tokens else speed
    return msgspec.structs.replace(
        pace,
        step=step,
        best_step=max(pace.best_step, step),
        stepped_s=now,
        step_times_s=times,
        best_s=_best(pace.best_s, times),
        pause_s=pause_s,
        tokens=tokens,
        tokens_per_s=speed,
        unseen=False,
    )


def _best(before_s: float | None, times_s: tuple[float, ...]) -> float | None:
    if len(times_s) < SETTLED:
        return before_s
    now_s = median(times_s)
    return now_s if before_s is None else min(before_s, now_s)


def _smooth(before: float | None, sample: float) -> float:
    return sample if before is None else 0.8 * before + 0.2 * sample
