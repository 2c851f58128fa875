"""A rule of the simulation that does not hold: raised by whoever checks it."""


class Violation(AssertionError):
    """A rule does not hold."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule


def require(rule: str, holds: bool, text: object) -> None:
    if not holds:
        raise Violation(rule, str(text))
