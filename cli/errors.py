"""How a command ends early: one sentence, what to do about it, and an exit code."""

from collections.abc import Sequence
from pathlib import Path

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


def not_readable(path: Path, error: OSError) -> Stopped:
    """A file of the driver's state is not for this user: exit code 78."""
    return Stopped(
        f"cannot read {path}: {error.strerror}.",
        fix="Use the account that started the driver, or --driver URL with HOLDFAST_TOKEN.",
        code=exitcodes.CONFIGURATION,
    )


def misused(sentence: str, fix: str = "") -> Stopped:
    """What was typed cannot be right: exit code 2."""
    return Stopped(sentence, fix=fix, code=exitcodes.USAGE)
