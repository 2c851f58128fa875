"""What a client raises: a sentence, and what to do about it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.cli.client import Problem
from holdfast.cli.errors import Stopped
from holdfast.protocol import exitcodes
from holdfast.protocol.mistakes import Mistake


class HoldfastError(Exception):
    """`sentence` says what is wrong, `fix` what to do; both are its text."""

    def __init__(self, sentence: str, fix: str = "", details: Sequence[str] = ()) -> None:
        super().__init__("\n".join([*details, f"{sentence} {fix}".strip()]))
        self.sentence = sentence
        self.fix = fix


class NotReachable(HoldfastError):
    """No driver answers."""


class Refused(HoldfastError):
    """The driver answered, and did nothing. `status` is HTTP's, `mistakes` are all of them."""

    def __init__(
        self,
        sentence: str,
        fix: str = "",
        details: Sequence[str] = (),
        *,
        status: int,
        mistakes: Sequence[Mistake] = (),
    ) -> None:
        super().__init__(sentence, fix, details)
        self.status = status
        self.mistakes = tuple(mistakes)


@contextmanager
def ours() -> Iterator[None]:
    """Around what the command line's own code does: what it ends with becomes one of these."""
    try:
        yield
    except Stopped as stopped:
        raise of(stopped) from stopped


def of(stopped: Stopped) -> HoldfastError:
    if isinstance(stopped, Problem):
        mistakes = [Mistake(**each) for each in stopped.mistakes]
        return Refused(
            stopped.sentence,
            stopped.fix,
            stopped.details,
            status=stopped.status,
            mistakes=mistakes,
        )
    away = stopped.code == exitcodes.UNAVAILABLE
    kind = NotReachable if away else HoldfastError
    return kind(stopped.sentence, stopped.fix, stopped.details)
