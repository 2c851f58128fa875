"""Whether an exception is the echo of a peer's death, by its words and where it was raised. Pure.

Asked by the executor of what a rank left behind, and by a rank of an exception that ended its
function.
"""

import re

_PEER_LOST = re.compile(
    r"Connection (closed|reset) by peer|Broken pipe|Connection refused|recvValue failed"
    r"|Timed out waiting|Socket Timeout|timed? ?out|pair closure|remote process exited"
    r"|ncclRemoteError|ncclSystemError|NCCL communicator was aborted|failed to (recv|send|connect)",
    re.IGNORECASE,
)
_COLLECTIVE = re.compile(r"\bgloo(/|::)|\bNCCL\b|\bnccl[A-Z]|\bc10d\b|\bTCPStore\b|ProcessGroup")
"""In an error's own words: those of torch's libraries. A path or a name of the user's is none."""
_COLLECTIVE_FILES = re.compile(
    r"/torch/distributed/(distributed_c10d|c10d_logger|_functional_collectives|rendezvous)\.py$"
)
_COLLECTIVE_ERRORS = frozenset({"DistBackendError", "DistNetworkError", "DistStoreError"})
_OWN = re.compile(
    r"NCCL error in: .*(invalid (usage|argument)|unhandled cuda error)|unsupported NCCL"
    r"|nccl(InvalidUsage|InvalidArgument|UnhandledCudaError)"
)
"""What NCCL says to a rank of its own doing, or of its own device. No peer's death comes so."""
_RAISED_BY_TORCH = frozenset({"", "RuntimeError", "DistError"})
"""What an error of a collective is else: a TimeoutError, e.g. of a download, is the script's."""
_FRAME = re.compile(r'^ *File "(?P<file>[^"\n]+)", line \d', re.MULTILINE)


def in_collective(message: str, trace: str, exception: str) -> bool:
    """Whether a rank died of not reaching its peers: likely the echo of another one's death."""
    if _OWN.search(message):
        return False
    if exception in _COLLECTIVE_ERRORS:
        return True
    if exception not in _RAISED_BY_TORCH or not _PEER_LOST.search(message):
        return False
    files = _FRAME.findall(trace)
    inside = bool(files) and _COLLECTIVE_FILES.search(files[-1]) is not None
    return inside or _COLLECTIVE.search(message) is not None
