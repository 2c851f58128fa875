"""What the end of a rank says of its place: the same words at the same place come again.

Called by `root_cause`. Pure. What the outside refused may be there the next time, and says nothing;
nor does a device that failed, of which the place in the script is only where that was noticed.
"""

import re
from signal import Signals

from holdfast.driver.core.attempt.tally import own_signal, signal_of
from holdfast.driver.core.state.model import Signature
from holdfast.protocol.messages import RankError, RankStatus

_SENDERS = {
    "SIGKILL": ": the kernel does that where memory is short (see dmesg)",
    "SIGTERM": ": a time limit does that",
    "SIGXCPU": ": its limit of CPU time is used (ulimit -t)",
    "SIGXFSZ": ": a file is at its limit (ulimit -f)",
    "SIGALRM": ": a timer that it set itself does that",
}

_PASSING = re.compile(
    r"^(\w*(Connection|Timeout|OSError|BrokenPipe|HTTP|URL|SSL)\w*|gaierror|IOError)$"
)
"""Exceptions that tell of the world outside the script: network, files, servers."""
_DEVICE = re.compile(r"\b(CUDA|HIP|NCCL|RCCL) error|cuDNN|CUBLAS", re.IGNORECASE)
"""Words of a device that failed: the place in the script is only where that was noticed."""
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
        unread=_unread(status.error),
        outside=signal_of(status) > 0 and own_signal(status) is None,
    )


def _unread(error: RankError | None) -> bool:
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


def _how(status: RankStatus) -> str:
    if status.out_of_memory:
        return ""
    if number := signal_of(status):
        return signal_name(number)
    error, code = status.error, f"exit code {status.exit_code or 0}"
    if error is None:
        return code
    if _PASSING.match(error.exception) or _DEVICE.search(error.message) or error.not_startable:
        return ""
    return code + _words(error)


def signal_name(number: int) -> str:
    """`SIGKILL`, or `signal 42` where it has no name."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def _words(error: RankError) -> str:
    frames = list(_FRAME.finditer(error.traceback))
    where = f" at {frames[-1]['file']}:{frames[-1]['line']}" if frames else ""
    return f"{where}: {_NUMBER.sub('#', error.message)}"


def ran(traceback: str) -> bool:
    """Whether a line of the script ran, as far as its traceback shows."""
    return _RAN.search(traceback) is not None


def killed(end: Signature | None, times: int) -> str:
    """A sentence for people about a signal from outside that came again and again; "" for other
    ends, and for a first one."""
    if end is None or not end.outside or (end.relative and end.step) or times < 2:
        return ""
    where = f"after step {end.step}" if end.step else "before its first step"
    return f"That came {times} times {where}{_SENDERS.get(end.how, '')}. "
