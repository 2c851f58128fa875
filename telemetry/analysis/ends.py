"""How a rank ended, as its executor tells: by which signal, and what its traceback shows. Pure.

Used by the driver, which judges whose fault that was.
"""

import re
from signal import Signals

from holdfast.protocol.exitcodes import of_signal
from holdfast.protocol.messages import RankError, RankStatus

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

_UNREADABLE = frozenset({"SyntaxError", "IndentationError", "TabError"})
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_RAN = re.compile(
    r'^ *File "(?P<file>[^"\n]+)", line \d+, in (?P<name>.*)(\n    (?P<source>.*))?', re.MULTILINE
)
"""A frame that ran, with its source: of a place where Python could not read on nothing is `in`."""
_IMPORT = re.compile(r"(^|[:;]) *(import|from +\S+ +import)\b|\b(import_module|__import__)\b")
"""In a line of source."""
_IMPORTER = "<frozen importlib"
"""The file of Python's own frames of an import: they show no source."""


def failed(status: RankStatus) -> bool:
    """True where the rank did not end well."""
    return bool(status.signal) or status.exit_code != 0


def is_echo(status: RankStatus) -> bool:
    """True where the death of a peer explains this one."""
    return not status.signal and status.error is not None and status.error.in_collective


def own_signal(status: RankStatus) -> Signals | None:
    """The signal that the rank brought upon itself, also as a shell's exit code; None: no such."""
    number = signal_of(status)
    return next((signal for signal in OWN_SIGNALS if signal == number), None)


def signal_of(status: RankStatus) -> int:
    """The number of the signal that ended it, also as a shell's exit code; 0: none did. A script
    may end with any code: only those count of signals that rank or outside are known to send."""
    number = (status.exit_code or 0) - of_signal(0)
    return status.signal or (number if number in OWN_SIGNALS | _SENT else 0)


def sent_from_outside(status: RankStatus) -> bool:
    """Whether a signal ended it that it did not bring upon itself."""
    return signal_of(status) > 0 and own_signal(status) is None


def signal_name(number: int) -> str:
    """`SIGKILL`, or `signal 42` where it has no name."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


# ---------------------------------------------------------------- tracebacks


def unread(error: RankError | None) -> bool:
    """Whether Python could not read the script itself, of which nothing ran then, or a file that it
    imports. What only is not there may be there for the next start: that is another exception.
    """
    if error is None or error.exception not in _UNREADABLE:
        return False
    ran = list(_RAN.finditer(error.traceback))
    return _imports(ran[-1]) if ran else len(_FRAME.findall(error.traceback)) == 1


def _imports(frame: re.Match[str]) -> bool:
    """Also by a name, not by a word of the file's path."""
    return (
        frame["file"].startswith(_IMPORTER)
        or frame["name"] == "import_module"
        or bool(_IMPORT.search((frame["source"] or "").strip()))
    )


def where(error: RankError) -> str:
    """Where it was raised, and its words without numbers."""
    frames = list(_FRAME.finditer(error.traceback))
    where = f" at {frames[-1]['file']}:{frames[-1]['line']}" if frames else ""
    return f"{where}: {words(error)}"


def words(error: RankError) -> str:
    """Its words without numbers."""
    return _NUMBER.sub("#", error.message)


def ran(traceback: str) -> bool:
    """Whether a line of the script ran, as far as its traceback shows."""
    return _RAN.search(traceback) is not None
