"""What an executor writes down of a rank's output for the daemon beside it; words to look for.

One file a rank and epoch in the node's memory, made before the fork: the rank may live for
milliseconds, and its last line is the one that matters.
"""

import re
from typing import NamedTuple

import msgspec

STREAMS = ("stdout", "stderr")


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """Where a rank's output goes, and how long each file was before the rank began, in bytes."""

    job: str
    epoch: int
    rank: int
    folder: str
    attempt: int = 0
    traces: str = ""  # the job's folder of traces, as the node sees it
    began: dict[str, int]  # by stream
    rules: tuple[str, ...] = ()  # patterns of the job


class Rule(NamedTuple):
    """`sign`: what a line shows that has these words and no better known ones, by its name in the
    driver's table of signs."""

    sign: str
    pattern: str


DEFAULT_RULES = {
    "a loss that is not a number": Rule(
        "not-a-number",
        r"(?i)(loss|grad[_ ]?norm)\w{0,24}( \(\w{1,12}\))?"
        r"\W{0,24}(is )?(tensor\()?nan\b",
    ),
    "an error of CUDA": Rule(
        "device", r"\bCUDA error\b|cudaError[A-Z]|CUBLAS_STATUS_|CUDNN_STATUS_"
    ),
    "an error of NCCL": Rule(
        "nccl",
        r"\bNCCL WARN\b|(?i:unhandled (cuda|system) error)"
        r"|nccl(UnhandledCuda|System|Internal|Remote)Error|Watchdog caught collective",
    ),
    "want of memory": Rule("memory", r"(?i)\bout of memory\b|OutOfMemoryError|\bstd::bad_alloc\b"),
    "an XID": Rule("xid", r"\bXid \("),
    "an error of ECC": Rule("gpu-ecc", r"(?i)\buncorrectable ECC\b|\bECC error\b"),
    "a full disk": Rule("no-space", r"No space left on device|Disk quota exceeded"),
    "a file system that fails": Rule(
        "file-system",
        r"Stale file handle|Input/output error|Read-only file system"
        r"|Transport endpoint is not connected",
    ),
    "HDFS": Rule(
        "hdfs",
        r"\borg\.apache\.hadoop\.\S{0,80}Exception|\bHDFS\w{0,12}(Error|Exception)\b"
        r"|\bhdfs[A-Z]\w{2,20}\(.{0,300} error:"
        r"|Name node is in safe mode|could only be (re)?written to|could only be replicated to",
    ),
    "a crash": Rule(
        "crash", r"^Fatal Python error|\bSegmentation fault\b|\bBus error\b|^terminate called after"
    ),
}
"""Words that come before many an end, by what they speak of. A report, and never more: healthy jobs
print some of them too."""
FLOOD = "a flood"
"""Told as such a word is: a rank printed so much at once that the middle of it was not searched."""

_FRAME = re.compile(r' *File "[^"]+", line \d+')
_INDENT = "    "
_NEAR_CHARACTERS = 2_000


def quoted(line: str, text: str) -> bool:
    """Whether a traceback in `text` shows it as source below a frame: the script has these words,
    and did not print them."""
    if not line.startswith(_INDENT):
        return False
    at = text.find(line)
    before = text[max(0, at - _NEAR_CHARACTERS) : at].splitlines()
    above = next((each for each in reversed(before) if not each.startswith(_INDENT)), "")
    return _FRAME.match(above) is not None
