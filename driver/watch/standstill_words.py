"""A standstill in words: who holds the job up, how, since when, and what is done when. Pure.

Used by `standstill` alone.
"""

from msgspec.structs import replace

from holdfast.driver.watch import standstill_manner
from holdfast.driver.watch.model import Expectation, evidence, goes_on
from holdfast.driver.watch.pace import Pace
from holdfast.driver.watch.pauses import Lines
from holdfast.driver.watch.standstill_case import Case
from holdfast.driver.watch.standstill_limits import Still
from holdfast.driver.watch.standstill_manner import Manner
from holdfast.protocol.faults import Evidence, Finding, Kind, Pause, Weight


def who(case: Case) -> str:
    """`rank 1 on node-0`, or the job itself."""
    if case.rank is None or case.node is None:
        return case.expected.job
    return f"rank {case.rank} on {case.node}"


def summary(case: Case) -> str:
    """The whole of it in a sentence."""
    why = case.verdict.why[0]
    if case.verdict.rank == case.rank and case.rank is not None:
        return f"{who(case)} holds the job up: {why}"
    still = f"no progress for {case.stood_s:.1f} s"
    if case.unlike:  # whatever one of them does besides
        return f"{still}: {why}; which of them is wrong is not known"
    does = _does(case)
    if case.rank is not None:
        return f"{who(case)} holds the job up: {does[0] if does else why}"
    return f"{still}, and nobody can be named: {why}{case.places and f'; {case.places}'}"


def report(case: Case, limit_s: float, known: Pause) -> Finding:
    """What is said at the floor, long before anything is done. `known`: what paused there before,
    and ended by itself."""
    waits = f"{case.expected.job} waits for {case.stood_s:.1f} s"
    if case.young:
        waits = f"{case.expected.job} has made no step that is seen for {case.stood_s:.0f} s"
    return Finding(
        kind=Kind.STANDSTILL,
        weight=Weight.REPORT,
        job=case.expected.job,
        epoch=case.expected.epoch,
        node=case.node,
        rank=case.rank if case.node is not None else None,
        step=case.pace.step if case.unit == "step" else None,
        stalled_s=case.stood_s,
        summary=f"{waits}: {cause(case, limit_s)}; {_then(case, limit_s)}",
        evidence=(_stood(case, limit_s, over=False), *_reasons(case), *_before(case, known)),
    )


def cause(case: Case, limit_s: float) -> str:
    """What it waits for, in a clause."""
    if case.unlike:
        return case.verdict.why[0]
    return _sleeps(case, limit_s) or next(iter(_does(case)), case.verdict.why[0])


def _sleeps(case: Case, limit_s: float) -> str:
    """That it does, where one sleep is all that it did, and ends before anything is done."""
    seen = case.seen
    if seen is None or seen.sleep_s < case.idle_s or seen.sleep_left_s > limit_s - case.idle_s:
        return ""
    return standstill_manner.told(seen, Manner.ASLEEP, case.cpu)


def _then(case: Case, limit_s: float) -> str:
    """What is done, when, and what gives it longer."""
    if case.apart_s:
        return f"after {limit_s:.0f} s of that it is restarted"
    if case.young:
        return (
            f"without one for {limit_s:.0f} s it is restarted (--first-step gives it longer; steps "
            "without an optimizer are seen by telemetry.step())"
        )
    if case.manner is Manner.ASLEEP:
        return "nothing is done about it before that is over"
    if case.manner is Manner.WORKING:
        return f"without a step for {limit_s:.0f} s it is restarted (--pause-max gives it longer)"
    restarted = f"if nothing moves for {limit_s:.0f} s it is restarted"
    if case.manner is Manner.DEAD:
        return restarted
    return f"{restarted} (--stuck-max or telemetry.pause() gives it longer)"


def all_clear(still: Still, expected: Expectation, pace: Pace, over: Lines) -> Finding:
    """The standstill that was said is over. Its report is not kept everywhere: the cause is told
    again. `over`: what was seen of it, by line."""
    waited = f": it had waited for {still.named}" if still.named != expected.job else ""
    told = f" (when that was said: {still.cause})" if still.cause else ""
    text = f"{expected.job} goes on by itself{waited}{told}{_known_now(over)}"
    return replace(goes_on(expected, pace.step, text), pauses=dict(still.paused))


def _known_now(over: Lines) -> str:
    line = max(over, key=lambda each: over[each].lasted_s, default="")
    if not line:
        return ""
    return f"; from now on a pause of {over[line].lasted_s:.0f} s is known at {line}"


def evidence_of(case: Case, limit_s: float, known: Pause) -> tuple[Evidence, ...]:
    """What the finding rests on."""
    return (_stood(case, limit_s, over=True), *_reasons(case), *_before(case, known))


def fix(case: Case) -> str:
    """Which option would have let it go on, in a sentence."""
    if case.young:
        return "A longer firstStepS (`holdfast run --first-step`) gives it more time."
    if case.manner is Manner.WORKING:
        return "A longer pauseMaxS (`holdfast run --pause-max`) gives it more time."
    if case.manner is Manner.STUCK:
        return (
            "If it only pauses there, a longer stuckMaxS (`holdfast run --stuck-max`) gives it "
            "more time, and `with holdfast.telemetry.pause():` around it says so."
        )
    return "If it only pauses there, `with holdfast.telemetry.pause():` around it says so."


def _before(case: Case, known: Pause) -> tuple[Evidence, ...]:
    if not known.lasted_s:
        return ()
    text = f"the longest pause there that ended by itself took {known.lasted_s:.1f} s"
    return (evidence("detector", text, paused_s=round(known.lasted_s, 2)),)


def _reasons(case: Case) -> tuple[Evidence, ...]:
    said = [*_does(case), *case.verdict.why, *filter(None, [case.places])]
    if case.seen is not None and case.seen.unseen and case.manner is Manner.STUCK:
        said.append(f"what it moves could not be seen: {', '.join(case.seen.unseen)}")
    return tuple(evidence("detector", sentence) for sentence in said)


def _does(case: Case) -> list[str]:
    return (
        [standstill_manner.told(case.seen, case.manner, case.cpu)] if case.seen is not None else []
    )


def _stood(case: Case, limit_s: float, *, over: bool) -> Evidence:
    pace, stood_s = case.pace, case.stood_s
    usual = f"; a {case.unit} takes {pace.median_s:.2g} s" if pace.median_s is not None else ""
    bound = f"{'where' if over else 'and'} {limit_s:.1f} s are allowed"
    last = f"{case.unit} {pace.step}{' of this attempt' if case.relative else ''}"
    text = f"no {case.unit} since {last} for {stood_s:.1f} s{_apart(case)}, {bound}{usual}"
    return evidence("detector", text, stood_s=round(stood_s, 2), limit_s=round(limit_s, 2))


def _apart(case: Case) -> str:
    """Of what the limit is, where it is not of the time without a step."""
    if not case.apart_s:
        return ""
    return f"; in collectives that never meet for {case.apart_s:.1f} s"
