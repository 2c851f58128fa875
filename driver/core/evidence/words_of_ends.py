"""What the end of a rank shows, as names of signs: by its executor's word and its own last words.

Called by `faults`. Pure. Patterns follow what CUDA, NCCL, torch, the C library and Python print. Of
several that match the first counts. What comes of a device or of the outside is noticed at some
place in the script that says nothing of it.
"""

import re
from typing import NamedTuple

from holdfast.driver.core.evidence import signs
from holdfast.driver.core.evidence.signs import of_kind
from holdfast.protocol.faults import CHECKPOINT_REFUSED, Kind, Origin
from holdfast.protocol.messages import RankError, RankStatus
from holdfast.protocol.outputs import DEFAULT_RULES
from holdfast.telemetry.analysis import ends


class Words(NamedTuple):
    """A pattern for the last words of a rank. `here`: the same line at the same step is the same
    again: a script's own, or what it writes to has no room whenever it comes there."""

    pattern: str
    here: bool = False


WORDS: dict[str, Words] = {
    "checkpoint-refused": Words(rf"^{CHECKPOINT_REFUSED}\b", here=True),
    "gpu-ecc": Words(r"(?i)uncorrectable (ECC|NVLink) error"),
    "gpu-gone": Words(
        r"(?i)no CUDA-capable device is detected|CUDA-capable device\(s\) is/are busy"
        r"|No CUDA GPUs are available"
        r"|Found no NVIDIA driver on your system"
        r"|hardware stack error|GPU is lost|system not yet initialized|fallen off the bus"
    ),
    "illegal-access": Words(
        r"(?i)illegal memory access|device-side assert|misaligned address|illegal instruction was"
    ),
    "gpu-memory": Words(r"(?i)(CUDA|HIP) (error: )?out of memory|CUBLAS_STATUS_ALLOC_FAILED"),
    "nccl-usage": Words(
        r"nccl(InvalidUsage|InvalidArgument)|NCCL error in: .*invalid (usage|argument)"
        r"|Duplicate GPU detected"
    ),
    "nccl-device": Words(r"ncclUnhandledCudaError|NCCL error in: .*unhandled cuda error"),
    "nccl-link": Words(
        r"NET/IB ?: .*(error|status=)|(?i:socketProgress|connection closed by remote peer).*NCCL"
        r"|NCCL WARN .*(Connection closed|(?i:transport retry|unreachable|timed out))"
    ),
    "nccl-remote": Words(r"ncclRemoteError|remote process exited or there was a network error"),
    "nccl-watchdog": Words(
        r"Watchdog caught collective|(?i:watchdog.*timeout)|Some NCCL operations have failed"
    ),
    "nccl": Words(r"(?i)\b(NCCL|RCCL)\b.*error|nccl\w*Error|NCCL WARN"),
    "no-more": Words(r"open files in system|can't start new thread|\[Errno (11|23)\]"),
    "open-files": Words(r"Too many open files|\[Errno 24\]"),
    "shared-memory": Words(
        r"(?i)workers are out of shared memory|insufficient shared memory \(shm\)"
        r"|killed by signal: Bus error"
        r"|unable to (allocate|write to|resize|mmap)\b.{0,80}(shared memory|</torch_)"
        r"|No space left on device.{0,200}/dev/shm\b"
        r"|(/dev/shm\b|shared memory).{0,200}No space left on device"
    ),
    "worker-killed": Words(r"DataLoader worker .{0,40}killed by signal: Killed"),
    "no-space": Words(r"No space left on device|Disk quota exceeded|\[Errno (28|122)\]", here=True),
    "file-system": Words(
        r"Input/output error|Stale file handle|Read-only file system"
        r"|Transport endpoint is not connected|\[Errno (5|30|116)\]",
        here=True,
    ),
    "hdfs": Words(
        r"\borg\.apache\.hadoop\.\S{0,80}Exception|\bHDFS\w{0,12}(Error|Exception)\b", here=True
    ),
    "device": Words(r"(?i)\b(CUDA|HIP) error|cuDNN|CUBLAS"),
    "memory": Words(
        r"\bstd::bad_alloc\b|^MemoryError\b|can't allocate memory|Cannot allocate memory", here=True
    ),
    "import": Words(r"^(ModuleNotFound|Import)Error\b", here=True),
    "not-a-number": Words(
        r"(?i)\b(loss|grad\w*|norm|weights?|parameters?|tensor)\b.{0,60}\b(nan|inf)\b"
        r"|\bnan or inf\b|\bnan loss\b|^FloatingPointError",
        here=True,
    ),
    "service": Words(
        r"Max retries exceeded|Name or service not known|Temporary failure in name resolution"
        r"|\bHTTP\w*Error\b.*\b(429|5\d\d)\b|^(requests|urllib3|botocore|huggingface_hub)\.\S*Error"
    ),
    "peer-closed": Words(r"(?i)connection (reset|closed) by peer|broken pipe"),
    "outside": Words(
        r"^([\w.]*(Connection|Timeout|OSError|BrokenPipe|HTTP|URL|SSL)\w*|(\w+\.)*gaierror|IOError)\b"
    ),
}
"""By the name of their sign."""
_EACH = tuple((name, re.compile(each.pattern), each.here) for name, each in WORDS.items())
_SHARED = re.compile(
    r'File "[^"]*\bmultiprocessing/(synchronize|shared_memory)\.py"(?!(?s:.*)File ")'
)
"""What was called last: a lock of multiprocessing's is a file in /dev/shm, which its error does not
name."""
LONGEST = 2_000
"""Characters of last words that are searched."""


def of_end(status: RankStatus, kind: Kind) -> tuple[str, ...]:
    """Of a rank that ended in this way."""
    if status.out_of_memory or not ends.failed(status):
        return (of_kind(kind),)
    if ends.is_echo(status):
        return ("lost-peer",)
    if status.error is not None and status.error.not_startable:
        return ("not-startable",)
    said = _of_words(status.error) if not ends.sent_from_outside(status) else None
    if said is not None:
        return (said[0],)
    if number := ends.signal_of(status):
        return (ends.signal_name(number),)
    return ("exit-code",) if kind is Kind.RANK_CRASHED else (of_kind(kind),)


def elsewhere(error: RankError) -> bool:
    """Whether the place in the script is only where something was noticed."""
    said = _of_words(error)
    return said is not None and not said[1]


def users(error: RankError) -> bool:
    """Whether its words speak of what the script did."""
    said = _of_words(error)
    return said is not None and signs.SIGNS[said[0]].origin is Origin.USER


def of_line(text: str, rule: str = "") -> str:
    """The sign of a line that a rank printed: by its words, else by the rule that found it.
    "" where neither is known."""
    words = (name for name, each, _ in _EACH if each.search(text[:LONGEST]))
    found = next(words, DEFAULT_RULES[rule].sign if rule in DEFAULT_RULES else "")
    return signs.of_line(found) if found else ""


def _of_words(error: RankError | None) -> tuple[str, bool] | None:
    """The sign, and whether it is the script's own line that matters."""
    if error is None:
        return None
    text = error.message[:LONGEST]
    if not re.match(rf"[\w.]*{re.escape(error.exception)}", text):
        text = f"{error.exception}: {text}"
    if _SHARED.search(error.traceback):
        text = f"{text} (/dev/shm)"
    return next(((name, here) for name, each, here in _EACH if each.search(text)), None)
