"""Ranks that ended: which death came first, and which are only its echoes.

Called when the gather window of a job closes. Pure. The order is that of arrival at the driver, not
of stamps; a signal or an exception of its own comes before an error that a peer's death explains.
"""

from collections.abc import Sequence
from signal import Signals

from holdfast.driver.core.model import Exited, Fault, Job
from holdfast.protocol.exitcodes import of_signal
from holdfast.protocol.faults import Blame, Evidence, Kind, Weight
from holdfast.protocol.messages import RankStatus

SIGKILL = 9
"""The one death that a rank's own memory cannot cause."""


def failed(status: RankStatus) -> bool:
    """True where the rank did not end well."""
    return bool(status.signal) or status.exit_code != 0


def is_echo(status: RankStatus) -> bool:
    """True where the death of a peer explains this one."""
    return not status.signal and status.error is not None and status.error.in_collective


def only_echoes(exits: Sequence[Exited]) -> bool:
    """True where every rank that failed lost a peer, and what they died of is not known."""
    first = root(exits)
    return first is not None and is_echo(first.status)


def root(exits: Sequence[Exited]) -> Exited | None:
    """The exit that explains the others; None where none failed."""
    bad = [exited for exited in exits if failed(exited.status)]
    causes = [exited for exited in bad if not is_echo(exited.status)]
    first = next(iter(causes or bad), None)
    if first is None or _class_of(first.status)[1] is not Blame.USER:
        return first
    alike = [each for each in causes if _same_end(each.status, first.status)]
    return min(alike, key=lambda each: each.status.rank)


def _same_end(one: RankStatus, other: RankStatus) -> bool:
    """The same mistake of the user's in several ranks: which of them was first means nothing."""
    return _words(one) == _words(other) and _class_of(one) == _class_of(other)


def _words(status: RankStatus) -> tuple[int | None, str]:
    return status.exit_code, status.error.message if status.error else ""


def unstartable(job: Job) -> str:
    """Why the job's command cannot be run at all, in a sentence; "" where it was run.

    A job that has completed a step was given the right command and folder: there, the node is at
    fault, and another try may help.
    """
    first = root(job.exits)
    if first is None or not _never_ran(first.status) or job.best_step is not None:
        return ""
    return f"{summary(first)}."


def _never_ran(status: RankStatus) -> bool:
    return status.error is not None and status.error.not_startable


def judge(job: Job) -> Fault | None:
    """The fault behind the exits of the current epoch. Who only complains is not named."""
    first = root(job.exits)
    if first is None:
        return None
    echo = is_echo(first.status)
    kind, blame = _class_of(first.status)
    error = first.status.error
    steps = [exited.step for exited in job.exits if exited.step is not None]
    return Fault(
        kind=kind,
        weight=Weight.RESTART,
        blame=blame,
        node=None if echo else first.node,
        rank=None if echo else first.status.rank,
        step=max(steps, default=None),
        summary=summary(first),
        evidence=_evidence(job.exits),
        traceback=(error.traceback or error.message) if error and kind_is_users(kind) else "",
        spoils=_spoils(job, first.status, max(steps, default=None)),
    )


def kind_is_users(kind: Kind) -> bool:
    """True for what the user's own code did."""
    return kind is Kind.USER_EXCEPTION


def _class_of(status: RankStatus) -> tuple[Kind, Blame]:
    if status.out_of_memory:
        return Kind.OUT_OF_MEMORY, Blame.UNKNOWN
    if status.signal or is_echo(status) or (status.exit_code or 0) >= of_signal(0):
        return Kind.RANK_CRASHED, Blame.UNKNOWN
    if _never_ran(status):
        return Kind.START_FAILED, Blame.USER
    if status.error is not None and status.error.exception:
        return Kind.USER_EXCEPTION, Blame.USER
    return Kind.RANK_CRASHED, Blame.USER


def summary(exited: Exited) -> str:
    """How a rank ended, in a sentence."""
    status = exited.status
    who = f"rank {status.rank} on {exited.node}"
    if is_echo(status):
        return f"{who} lost a peer, and no death was seen"
    if status.out_of_memory:
        return f"{who} was killed for want of memory"
    if status.signal:
        return f"{who} died of {_signal_name(status.signal)}"
    if status.error is not None and status.error.not_startable:
        return f"{who} could not be started: {status.error.message.removesuffix('.')}"
    if status.error is not None and status.error.exception:
        return f"{who} raised {status.error.message or status.error.exception}"
    return f"{who} ended with exit code {status.exit_code or 0}"


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def _evidence(exits: Sequence[Exited]) -> tuple[Evidence, ...]:
    """One piece for each failed rank, causes before echoes, in order of arrival."""
    bad = [exited for exited in exits if failed(exited.status)]
    bad.sort(key=lambda exited: is_echo(exited.status))
    return tuple(
        Evidence(source=f"executor of {exited.node}", text=summary(exited)) for exited in bad[:8]
    )


def _spoils(job: Job, status: RankStatus, step: int | None) -> bool:
    """True where ranks restored from memory died before one step, of something of their own."""
    point = job.restore
    if point is None or point.source != "memory" or job.progressed:
        return False
    return status.signal != SIGKILL and (step is None or step <= point.step)
