"""A job that becomes slower over days, by its own best, with nothing changed that would explain it.

Pure. What one step, or token, takes is looked at once a minute; an hour of that is a window. Told
is what each of the last twelve windows shows against the best six in a row that the same version
had in the same layout: one slow window, or some hours of longer data, are none. A report, taken
back once as many windows as the best are of are well. It begins anew with a driver's restart.
"""

from collections.abc import Mapping
from statistics import median

import msgspec

from holdfast.driver.watch import jobs
from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.jobs import JobSeen
from holdfast.driver.watch.model import Expectation, Findings, evidence
from holdfast.protocol.faults import Finding, Kind, Weight

LOOK_S = 60.0
LOOKS = 60
"""Of a window: an hour in which the job trains."""
BEST = 6
"""Windows in a row of which the best are: their median is disturbed by no single one."""
LATELY = 12
"""Windows each of which has to be slower: half a day, longer than a slow part of most data."""
SLOWER = 1.05
"""By how much, at least: less is noise that nobody would look for."""

Shape = tuple[object, ...]


class Windows(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one job."""

    shape: Shape = ()
    unit: str = ""  # "step", or "token" where the job tells them
    looked_s: float = float("-inf")
    looks: tuple[float, ...] = ()  # seconds a unit, of the window under way
    last: tuple[float, ...] = ()  # windows
    best: tuple[float, ...] = ()
    told: bool = False
    earlier: bool = False  # told by a driver before, and not taken back


class Declines(Detector):
    def __init__(self) -> None:
        self._windows: dict[str, Windows] = {}
        self._step: dict[str, int] = {}

    def looked_at(self, job: JobSeen, context: Context) -> Findings:
        name = job.expected.job
        earlier = Kind.DECLINE in context.recalled_of(name)
        known = self._windows.get(name, Windows(earlier=earlier))
        if context.now - known.looked_s < LOOK_S:
            return ()
        value, unit = _value(job)
        known = msgspec.structs.replace(known, looked_s=context.now)
        goes, self._step[name] = job.pace.step != self._step.get(name), job.pace.step
        findings: Findings = ()
        if value is not None and goes:
            known, findings = judge(known, value, unit, job.expected)
        self._windows[name] = known
        return findings

    def drop(self, job: str) -> None:
        self._windows.pop(job, None)
        self._step.pop(job, None)


def _value(job: JobSeen) -> tuple[float | None, str]:
    """What a token takes, where the job tells of them: longer data make longer steps."""
    pace, _ = jobs.tempo(job)
    if pace.tokens_per_s:
        return 1 / pace.tokens_per_s, "token"
    return pace.median_s, "step"


def shape_of(expected: Expectation) -> Shape:
    """What explains another speed, where it changes."""
    return expected.version, expected.topology, len(expected.seats)


def judge(
    known: Windows, value_s: float, unit: str, expected: Expectation
) -> tuple[Windows, Findings]:
    """Take in one look. At most one finding until it is taken back."""
    shape = shape_of(expected)
    if (known.shape, known.unit, unit) == (shape, "token", "step"):
        return known, ()  # an attempt begins: it has told no tokens yet
    if (known.shape, known.unit) != (shape, unit):
        was = known.told or known.earlier
        known = Windows(shape=shape, unit=unit, looked_s=known.looked_s, earlier=was)
    looks = (*known.looks, value_s)
    if len(looks) < LOOKS:
        return msgspec.structs.replace(known, looks=looks), ()
    last = (*known.last, median(looks))[-LATELY:]
    best = _best(known.best, last[-BEST:])
    known = msgspec.structs.replace(known, looks=(), last=last, best=best)
    return _judged(known, expected)


def _best(best: tuple[float, ...], newest: tuple[float, ...]) -> tuple[float, ...]:
    if len(newest) < BEST:
        return best
    return newest if not best or median(newest) < median(best) else best


def _judged(known: Windows, expected: Expectation) -> tuple[Windows, Findings]:
    if not known.best:
        return known, ()
    usual_s = median(known.best)
    if not known.told and is_slower(known):
        known = msgspec.structs.replace(known, told=True, earlier=False)
        return known, (_finding(known, median(known.last) / usual_s, expected),)
    well = len(known.last) >= BEST and max(known.last[-BEST:]) < SLOWER * usual_s
    if well and (known.told or known.earlier):
        known = msgspec.structs.replace(known, told=False, earlier=False)
        return known, (_over(expected),)
    return known, ()


def is_slower(known: Windows) -> bool:
    """Whether each of the last windows is, and none of them as good as any of the best."""
    if len(known.last) < LATELY:
        return False
    return min(known.last) > max(SLOWER * median(known.best), *known.best)


def _finding(known: Windows, ratio: float, expected: Expectation) -> Finding:
    hours = LATELY * LOOKS * LOOK_S / 3600
    words: Mapping[str, str] = {"step": "a step takes", "token": "a token takes"}
    text = (
        f"{words[known.unit]} {median(known.last):.3g} s in the last {LATELY} windows of an hour "
        f"of training, {median(known.best):.3g} s in its best {BEST} in a row"
    )
    return Finding(
        kind=Kind.DECLINE,
        weight=Weight.REPORT,
        job=expected.job,
        epoch=expected.epoch,
        stalled_s=hours * 3600,
        summary=(
            f"{expected.job} is {ratio - 1:.0%} slower than at its own best, in each of the last "
            f"{hours:.0f} hours, with the same version and layout"
        ),
        evidence=(evidence("detector", text, ratio=round(ratio, 3)),),
    )


def _over(expected: Expectation) -> Finding:
    return Finding(
        kind=Kind.AT_SPEED,
        weight=Weight.REPORT,
        job=expected.job,
        epoch=expected.epoch,
        summary=f"{expected.job} is as fast as before",
    )
