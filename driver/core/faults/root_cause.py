"""Ranks that ended: which death came first, and which are only its echoes.

Called when the gather window of a job closes. Pure. The order is that of arrival at the driver, not
of stamps; a signal or an exception of its own comes before an error that a peer's death explains.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.driver.core.evidence import signs, words_of_ends
from holdfast.driver.core.faults import crash_signature
from holdfast.driver.core.faults.fault import by_executor, shows
from holdfast.driver.core.state.model import Fault, Job
from holdfast.driver.core.state.node import Exited
from holdfast.protocol.faults import (
    CHECKPOINT_MISFIT,
    CHECKPOINT_REFUSED,
    Blame,
    Evidence,
    Kind,
    Weight,
)
from holdfast.protocol.messages import RankStatus
from holdfast.telemetry.analysis.ends import (
    failed,
    is_echo,
    own_signal,
    sent_from_outside,
    signal_name,
    signal_of,
)

COMPLAINTS = frozenset({"nccl-link", "nccl-remote", "nccl-watchdog", "nccl", "peer-closed"})
"""Signs that whoever is left shows when a peer dies, before that death is heard of."""
LAST_LINE_CHARS = 120
"""Of a line that may be of any length, in a sentence."""


def only_echoes(job: Job) -> bool:
    """True where every rank that failed lost a peer, and whose death that was may still come."""
    return bool(job.tally.failed) and not job.tally.causes


def in_question(job: Job) -> bool:
    """True where every rank that failed may have died of what another one did: it lost a peer, or
    ended itself, as gloo does to whoever is sent more than it expects.
    """
    return len(job.seats) > 1 and not job.tally.plain


def root(exits: Sequence[Exited]) -> Exited | None:
    """The exit that explains the others; None where none failed."""
    bad = _failed(exits)
    causes = [exited for exited in bad if not is_echo(exited.status)]
    if not causes:  # the first, also with exit code 0: it is a fault once peers that need it die
        return exits[0] if bad else None
    first = next((each for each in causes if not _complains(each.status)), causes[0])
    if not _of_user(first.status):
        return first
    alike = [each for each in causes if _same_end(each.status, first.status)]
    return min(alike, key=lambda each: each.status.rank)


def _failed(exits: Sequence[Exited]) -> list[Exited]:
    return [exited for exited in exits if failed(exited.status)]


def _same_end(one: RankStatus, other: RankStatus) -> bool:
    """The same mistake of the user's in several ranks: which of them was first means nothing."""
    return _words(one) == _words(other) and _kind_of(one) == _kind_of(other)


def _of_user(status: RankStatus) -> bool:
    verdict = signs.judge(words_of_ends.of_end(status, _kind_of(status)))
    return verdict.blame is Blame.USER


def _complains(status: RankStatus) -> bool:
    """Whether its words are those of who has lost a peer: another end is before it, if there is."""
    return not COMPLAINTS.isdisjoint(words_of_ends.of_end(status, _kind_of(status)))


def _words(status: RankStatus) -> tuple[int | None, str]:
    return status.exit_code, status.error.message if status.error else ""


def unstartable(job: Job, exits: Sequence[Exited]) -> str:
    """Why the job's command cannot be run at all, in a sentence; "" where it was run.

    A job that has completed a step was given the right command and folder: there, the node is at
    fault, and another try may help.
    """
    first = root(exits)
    if first is None or not _never_ran(first.status) or job.best_step is not None:
        return ""
    return f"{summary(first)}."


def misfits(exits: Sequence[Exited]) -> bool:
    """Whether the script's state has other names or shapes than the checkpoint that it is given."""
    first = root(exits)
    error = first.status.error if first is not None else None
    return error is not None and error.exception == CHECKPOINT_MISFIT


def _never_ran(status: RankStatus) -> bool:
    return status.error is not None and status.error.not_startable


def judge(job: Job, exits: Sequence[Exited]) -> Fault | None:
    """The fault behind the exits of the current epoch. Who only complains is not named."""
    first = root(exits)
    if first is None:
        return None
    if job.unlike is not None and in_question(job):
        told = (*job.unlike.evidence, *_evidence(first, exits))
        return replace(job.unlike, evidence=told, signature=crash_signature.signature(first.status))
    kind = _kind_of(first.status)
    echo = is_echo(first.status) or kind is Kind.CHECKPOINT_CORRUPT
    error = first.status.error if kind is Kind.USER_EXCEPTION else None
    steps = [exited.step for exited in exits if exited.step is not None]
    fault = Fault(
        kind=kind,
        weight=Weight.RESTART,
        node=None if echo else first.node,
        rank=None if echo else first.status.rank,
        place=_refuser(exits) if kind is Kind.CHECKPOINT_CORRUPT else None,
        step=max(steps, default=None),
        summary=summary(first),
        evidence=_evidence(first, exits),
        traceback=(error.traceback or error.message) if error else "",
        own=not echo and own_signal(first.status) is not None,
        spared=_killed_on_several(first, exits),
        signature=None if echo else crash_signature.signature(first.status),
    )
    return shows(fault, *words_of_ends.of_end(first.status, kind))


def _killed_on_several(first: Exited, exits: Sequence[Exited]) -> bool:
    """Whether ranks of several nodes were ended from outside at about the same time, this one among
    them: nothing speaks against the node that was heard of first."""
    sent = [each for each in _failed(exits) if sent_from_outside(each.status)]
    killed = [each for each in sent if not (each.status.out_of_memory or is_echo(each.status))]
    return first in killed and len({each.node for each in killed}) > 1


def explained(exits: Sequence[Exited], fault: Fault) -> Fault:
    """A standstill, or who explains it: a rank that the others wait for, and that ended well."""
    left = [each for each in exits if each.status.rank == fault.rank]
    if not left or failed(left[0].status):
        return fault
    first = left[0]
    told = by_executor(first.node, summary(first))
    early = replace(
        fault,
        kind=Kind.ENDED_EARLY,
        weight=Weight.RESTART,
        summary=told.text,
        evidence=(told, *fault.evidence),
        signature=crash_signature.signature(first.status),
        spot="",
    )
    return shows(early)


def _kind_of(status: RankStatus) -> Kind:
    if status.out_of_memory:
        return Kind.OUT_OF_MEMORY
    if not failed(status):
        return Kind.ENDED_EARLY
    if signal_of(status) or is_echo(status):
        return Kind.RANK_CRASHED
    if _never_ran(status):
        return Kind.START_FAILED
    if status.error is not None and status.error.exception == CHECKPOINT_REFUSED:
        return Kind.CHECKPOINT_CORRUPT
    if status.error is not None and status.error.exception:
        return Kind.USER_EXCEPTION
    return Kind.RANK_CRASHED


def summary(exited: Exited) -> str:
    """How a rank ended, in a sentence."""
    status = exited.status
    who = f"rank {status.rank} on {exited.node}"
    if is_echo(status):
        return f"{who} lost a peer, and no death was seen"
    if status.out_of_memory:
        return f"{who} was killed for memory: {memory(status.memory_limit_bytes)}"
    if status.signal:
        return f"{who} died of {signal_name(status.signal)}"
    if status.error is not None and status.error.not_startable:
        return f"{who} could not be started: {status.error.message.removesuffix('.')}"
    if not failed(status):
        at = f" after step {status.step}" if status.step else ""
        return f"{who} ended with exit code 0{at} while others train (uneven data?)"
    if status.error is not None and status.error.exception:
        said = status.error.message.rstrip() or status.error.exception
        return f"{who} raised {said.removesuffix('.')}"  # a sentence goes on after it
    return f"{who} ended with exit code {status.exit_code}{_last_line(status)}"


def _last_line(status: RankStatus) -> str:
    """What the rank wrote to stderr last, which may be why: not every program raises."""
    said = status.error.message.rstrip() if status.error is not None else ""
    shown = said if len(said) <= LAST_LINE_CHARS else f"{said[:LAST_LINE_CHARS]}..."
    return f", and wrote last: {shown!r}" if said else ""


def memory(limit_bytes: int) -> str:
    """What there was, and how to have more."""
    if not limit_bytes:
        return "its node had no more. Let fewer ranks share it, or let them use less"
    return (
        f"the limit of all ranks there is {limit_bytes / 2**20:,.0f} MiB. "
        "Ask for more by spec.pod.resources.limits.memory, or let them use less"
    )


def _evidence(first: Exited, exits: Sequence[Exited]) -> tuple[Evidence, ...]:
    """One piece for each failed rank, causes before echoes, in order of arrival."""
    bad = _failed(exits)
    bad.sort(key=lambda exited: is_echo(exited.status))
    if not failed(first.status):
        bad.insert(0, first)
    return tuple(by_executor(exited.node, summary(exited)) for exited in bad[:8])


def _refuser(exits: Sequence[Exited]) -> str | None:
    """The node whose ranks alone would not have the checkpoint: it may be its way to the store."""
    refused = {each.node for each in exits if _kind_of(each.status) is Kind.CHECKPOINT_CORRUPT}
    return refused.pop() if len(refused) == 1 else None
