"""What a job's facts say of a loss that is no number: which starts from before it are under way,
and when another one would not help. Pure.

Called by the recovery, and for the detector, which judges a replay more strictly. Who starts again
from before it does the same steps on the same data. Where it does not come again, it was passing.
"""

from collections.abc import Iterable

from msgspec import structs

from holdfast.driver.core.attempt import known_points
from holdfast.driver.core.state.fact import Fact, Hypothesis
from holdfast.driver.core.state.model import Fault, Job
from holdfast.protocol.counts import times
from holdfast.protocol.faults import Kind

TRIES = 2
"""Starts from before it that did not get past it: once on the same nodes, once more where it came
at another step, or on a node alone that the job has left since."""


def replays(job: Job) -> list[Fact]:
    """Faults of what it runs after which it started from before, and which it is not past yet."""
    return [fact for fact in _told(job) if fact.held_for is not Hypothesis.USER and _open(fact)]


def replayed(job: Job) -> bool:
    """Whether it is still to be seen if it comes again."""
    return bool(replays(job))


def hopeless(job: Job, fault: Fault) -> str:
    """Why no start from before it would help; "" where one may."""
    if any(fact.held_for is Hypothesis.USER for fact in _told(job)):
        return "steps that were done again led to the same before"
    if (tries := len(replays(job))) >= TRIES:
        return f"it came again, though the job was started from before it {times(tries)}"
    if fault.sound is None or not known_points.sound(job, fault.sound):
        upto = "" if fault.sound is None else f" up to step {fault.sound}"
        return f"no checkpoint{upto}, from before it, is known to be kept"
    return ""


def in_vain(job: Job) -> tuple[Fact, ...]:
    """Its facts, where those starts were in vain: it is the script's."""
    again = replays(job)
    return tuple(_users(fact) if fact in again else fact for fact in job.facts)


def _told(job: Job) -> Iterable[Fact]:
    number = job.running.number
    return (each for each in job.facts if each.what == Kind.LOSS and each.about.version == number)


def _open(fact: Fact) -> bool:
    return fact.about.site is not None and fact.about.site.passed_s is None


def _users(fact: Fact) -> Fact:
    return structs.replace(fact, held_for=Hypothesis.USER)
