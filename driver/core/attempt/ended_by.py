"""By which signal a rank ended, and whether it brought that upon itself. Pure."""

from signal import Signals

from holdfast.protocol.exitcodes import of_signal
from holdfast.protocol.messages import RankStatus

OWN_SIGNALS = frozenset(
    {
        Signals.SIGILL,
        Signals.SIGTRAP,
        Signals.SIGABRT,
        Signals.SIGBUS,
        Signals.SIGFPE,
        Signals.SIGSEGV,
        Signals.SIGSYS,
    }
)
"""Those that a process brings upon itself; a person or a kernel short of memory sends others."""

_SENT = frozenset({Signals.SIGHUP, Signals.SIGINT, Signals.SIGKILL, Signals.SIGTERM})
"""Those that come from outside."""


def own_signal(status: RankStatus) -> Signals | None:
    """The signal that the rank brought upon itself, also as a shell's exit code; None: no such."""
    number = signal_of(status)
    return next((signal for signal in OWN_SIGNALS if signal == number), None)


def signal_of(status: RankStatus) -> int:
    """The number of the signal that ended it, also as a shell's exit code; 0: none did. A script
    may end with any code: only those count of signals that rank or outside are known to send."""
    number = (status.exit_code or 0) - of_signal(0)
    return status.signal or (number if number in OWN_SIGNALS | _SENT else 0)
