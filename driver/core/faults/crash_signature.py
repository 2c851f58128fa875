"""What the end of a rank says of its place: the same words at the same place come again.

Called by `root_cause`. Pure. What the outside refused may be there the next time, and says nothing;
nor does a device that failed. Of what the script did to a device the step counts, and no line of
it, for that is only where it was noticed.
"""

from holdfast.driver.core.evidence import words_of_ends
from holdfast.driver.core.state.model import Signature
from holdfast.protocol import counts
from holdfast.protocol.messages import RankStatus
from holdfast.telemetry.analysis import ends

_SENDERS = {
    "SIGKILL": ": the kernel does that where memory is short (see dmesg)",
    "SIGTERM": ": a time limit does that",
    "SIGXCPU": ": its limit of CPU time is used (ulimit -t)",
    "SIGXFSZ": ": a file is at its limit (ulimit -f)",
    "SIGALRM": ": a timer that it set itself does that",
}


def signature(status: RankStatus) -> Signature | None:
    """Where and how the rank ended; None for an end that says nothing of its place, and for a
    program whose steps nobody sees.
    """
    how = _how(status)
    if not how or status.step is None:
        return None
    return Signature(
        how=how,
        step=status.step,
        relative=status.saved is not None,
        unread=ends.unread(status.error),
        outside=ends.sent_from_outside(status),
    )


def _how(status: RankStatus) -> str:
    if status.out_of_memory:
        return ""
    if number := ends.signal_of(status):
        return ends.signal_name(number)
    error, code = status.error, f"exit code {status.exit_code or 0}"
    if error is None:
        return code
    if error.not_startable:
        return ""
    if words_of_ends.elsewhere(error):
        return f"{code}: {ends.words(error)}" if words_of_ends.users(error) else ""
    return code + ends.where(error)


def killed(end: Signature | None, times: int) -> str:
    """A sentence for people about a signal from outside that came again and again; "" for other
    ends, and for a first one."""
    if end is None or not end.outside or (end.relative and end.step) or times < 2:
        return ""
    where = f"after step {end.step}" if end.step else "before its first step"
    return f"That came {counts.times(times)} {where}{_SENDERS.get(end.how, '')}. "
