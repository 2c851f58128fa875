"""What a driver says to people, on stderr, beside its log.

Used by `driver.main`, and by `driver.lead.journal_away` while it waits.
"""

import sys

from pydantic_core import ErrorDetails

from holdfast.kit.plain import visible


def say_to_people(sentence: str) -> None:
    """A machine reads the address file."""
    sys.stderr.write(f"holdfast  {visible(sentence)}\n")
    sys.stderr.flush()


def say(sentence: str) -> None:
    """Why this driver ends."""
    sys.stderr.write(f"holdfast-driver: {visible(sentence)}\n")


def say_all(group: BaseExceptionGroup[Exception], code: int) -> int:
    """Say each of them; `code`."""
    for error in group.exceptions:
        say(str(error))
    return code


def wrong(error: ErrorDetails) -> str:
    """What is wrong with a setting, by the option that it is."""
    option = "".join(f"--{str(part).replace('_', '-')}: " for part in error["loc"])
    if error["type"] == "value_error":
        return option + error["msg"].removeprefix("Value error, ")
    if error["type"] == "missing":
        return f"{option}it is missing"
    return f"{option}{error['msg'].replace('Input', 'it')}, not {error['input']!r}"
