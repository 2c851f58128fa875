"""How a command ends early: one sentence, what to do about it, and an exit code."""

from collections.abc import Sequence

from holdfast.protocol import exitcodes


class Stopped(Exception):
    """A command cannot go on. `main` prints it and exits with `code`."""

    def __init__(
        self,
        sentence: str,
        *,
        fix: str = "",
        code: int = exitcodes.FAILED,
        details: Sequence[str] = (),
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.fix = fix
        self.code = code
        self.details = tuple(details)  # lines shown before the sentence


def not_reachable(what: str, fix: str) -> Stopped:
    """The driver is not there: exit code 69."""
    return Stopped(what, fix=fix, code=exitcodes.UNAVAILABLE)


def misused(sentence: str, fix: str = "") -> Stopped:
    """What was typed cannot be right: exit code 2."""
    return Stopped(sentence, fix=fix, code=exitcodes.USAGE)
