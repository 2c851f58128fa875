"""How ranks end, in the words of an executor: of a trouble, and of a peer's death."""

from signal import SIGKILL, SIGSEGV

from holdfast.lab.simulator.cases.trouble import Manner, Trouble
from holdfast.protocol.messages import RankError, RankStatus

FRAME = 'Traceback (most recent call last):\n  File "train.py", line {line}, in step\n{words}'
LINE = 40
MEMORY_BYTES = 64 * 2**30


def of(trouble: Trouble, rank: int, step: int) -> RankStatus:
    """The end of the rank that the trouble befell."""
    match trouble.manner:
        case Manner.SIGNAL:
            return _status(rank, step, signal=int(SIGSEGV))
        case Manner.OUT_OF_MEMORY:
            return _status(rank, step, signal=int(SIGKILL), memory=MEMORY_BYTES)
        case Manner.EXCEPTION:
            return _status(rank, step, code=1, error=_raised(trouble.words))
        case _:
            return _status(rank, step, code=0)


def echo(rank: int, step: int) -> RankStatus:
    """The end of a rank that lost a peer."""
    words = "RuntimeError: connection closed by peer"
    lost = RankError(message=words, exception="RuntimeError", in_collective=True)
    return _status(rank, step, code=1, error=lost)


def _raised(words: str) -> RankError:
    traceback = FRAME.format(line=LINE, words=words)
    return RankError(message=words, exception=words.partition(":")[0], traceback=traceback)


def _status(
    rank: int,
    step: int,
    *,
    code: int | None = None,
    signal: int | None = None,
    memory: int = 0,
    error: RankError | None = None,
) -> RankStatus:
    return RankStatus(
        rank=rank,
        state="exited",
        exit_code=code,
        signal=signal,
        out_of_memory=bool(memory),
        memory_limit_bytes=memory,
        error=error,
        order=1,
        step=step,
        all_step=step,
    )
