"""What a rank left behind when it died: its error file, else the end of its stderr.

Called by `executor.ranks`. Pure but for reading the two files.
"""

import re
from pathlib import Path
from typing import Any

import msgspec

from holdfast.protocol.messages import RankError

MAX_MESSAGE, MAX_TRACEBACK = 2_000, 8_000
"""Characters that are passed on: an Observed of 64 ranks that failed has to fit in a frame."""
STDERR_TAIL_BYTES = 16_384

_PEER_LOST = re.compile(
    r"Connection (closed|reset) by peer|Broken pipe|Connection refused|recvValue failed"
    r"|Timed out waiting|Socket Timeout|timed? ?out|pair closure|remote process exited"
    r"|ncclRemoteError|ncclSystemError|NCCL communicator was aborted|failed to (recv|send|connect)",
    re.IGNORECASE,
)
_COLLECTIVE = re.compile(r"gloo|nccl|c10d|torch[./]distributed|TCPStore|ProcessGroup", re.I)
_COLLECTIVE_ERRORS = frozenset({"DistBackendError", "DistNetworkError", "DistStoreError"})
_LAST_LINE = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(: (?P<text>.*))?$", re.DOTALL)
_TRACEBACK = "Traceback (most recent call last):"


def rank_error(folder: Path) -> RankError | None:
    """The error of the rank whose files are in `folder`; None where it left no word."""
    return _from_file(folder / "error.json") or _from_stderr(folder / "stderr.log")


def _from_file(path: Path) -> RankError | None:
    """Torch elastic's format: message.message, message.extraInfo.{py_callstack, timestamp}."""
    try:
        content: Any = msgspec.json.decode(path.read_bytes())
        message = content["message"]
        if isinstance(message, str):
            return _error(message, "", 0.0)
        extra = message.get("extraInfo", {})
        stamp_s = float(extra.get("timestamp", 0) or 0)
        return _error(str(message["message"]), str(extra.get("py_callstack", "")), stamp_s)
    except (OSError, msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError):
        return None  # absent, or written by something else: stderr has to do


def _from_stderr(path: Path) -> RankError | None:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - STDERR_TAIL_BYTES))
            text = file.read().decode("utf-8", "replace").strip()
    except OSError:
        return None
    if not text:
        return None
    if _TRACEBACK not in text:
        return _error(text.rpartition("\n")[2], "", 0.0)
    trace = text[text.rindex(_TRACEBACK) :]
    return _error(_last_words(trace), trace, 0.0)


def _last_words(trace: str) -> str:
    """The exception's line in a traceback: the first after the frames that is not indented."""
    lines = trace.split("\n")[1:]
    words = [line for line in lines if line and not line.startswith((" ", "\t"))]
    return words[0] if words else trace


def _error(message: str, trace: str, stamp_s: float) -> RankError:
    named = _LAST_LINE.match(message)
    name = named["name"].rpartition(".")[2] if named else ""
    exception = name if name[:1].isupper() and (trace or name.endswith("Error")) else ""
    return RankError(
        message=message[:MAX_MESSAGE],
        traceback=trace[-MAX_TRACEBACK:],
        exception=exception,
        in_collective=in_collective(message, trace, exception),
        stamp_s=stamp_s,
    )


def in_collective(message: str, trace: str, exception: str) -> bool:
    """Whether a rank died of not reaching its peers: likely the echo of another one's death."""
    if exception in _COLLECTIVE_ERRORS:
        return True
    return bool(_PEER_LOST.search(message) and _COLLECTIVE.search(message + trace))
