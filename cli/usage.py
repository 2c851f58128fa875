"""What cannot be read of what was typed, told as we tell everything: the field, the value, the fix.

Called by `cli.main` with what click raises, and by `cli.run`, which reads some values itself.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.cli.errors import Stopped, misused
from holdfast.kit import alike

NOT_A_NUMBER = frozenset({"int_parsing", "int_parsing_size", "float_parsing"})
OUTSIDE = frozenset({"greater_than_equal", "less_than_equal"})
"""What pydantic calls a number that cannot be read, and one that is too small or too large."""


def as_typed(names: Sequence[str], words: Iterable[str]) -> str:
    """The one of an option's names that stands among `words`, spelt as there; else its first."""
    for word in words:
        spelt = word.partition("=")[0]
        if spelt.replace("_", "-") in names:
            return spelt
        if word[:2] in names:  # -n4
            return word[:2]
    return names[0]


def unread(error: Exception, words: Sequence[str]) -> Stopped:
    """The sentence for an error of click's about `words`."""
    context = getattr(error, "ctx", None)
    see = f"See: {_command(words) if context is None else context.command_path} --help"
    all_wrong: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    wrong: dict[str, Any] = all_wrong[0] if all_wrong else {"type": ""}
    option: Any = getattr(error, "param", None)
    if wrong["type"] in NOT_A_NUMBER | OUTSIDE:
        return _number(as_typed(option.opts, words), wrong, option.min, option.max, see)
    if wrong["type"] == "value_error":
        return misused(f"{as_typed(option.opts, words)}: {wrong['ctx']['error']}", see)
    said = _with_what_resembles(error)
    sentence = said[:1].lower() + said[1:].replace(": Input should be", ": it should be")
    sentence += f", not {wrong['input']!r}" if "input" in wrong else ""
    sentence += "" if sentence.endswith((".", "?")) else "."
    return misused(sentence, see)


def _command(words: Sequence[str]) -> str:
    """What was called, where click does not say: of an option whose value is missing."""
    named = [word for word in words[:1] if not word.startswith("-")]
    return " ".join(["holdfast", *named])


_MEANT = re.compile(r"(?P<said>No such command '(?P<name>.*)'\.) Did you mean (?P<near>.*)\?$")
"""What typer says of a command; of any that shares letters with it, which says nothing."""


def _with_what_resembles(error: Any) -> str:
    """What click says, with those names alone that resemble the one that was typed."""
    if getattr(error, "possibilities", None):
        typed = error.option_name.lstrip("-")
        near = alike.near(typed, (each.lstrip("-") for each in error.possibilities))
        meant = f" Did you mean {', '.join('--' + each for each in near)}?" if near else ""
        return f"{error.message}.{meant}"
    said: str = error.format_message()
    if found := _MEANT.match(said):
        near = alike.near(found["name"], re.findall("'([^']+)'", found["near"]))
        meant = f" Did you mean {', '.join(map(repr, near))}?" if near else ""
        return f"{found['said']}{meant}"
    return said


def _number(
    name: str, wrong: dict[str, Any], least: float | None, most: float | None, see: str
) -> Stopped:
    kind = "whole number" if wrong["type"].startswith("int_") else "number"
    outside, bounds = _bounds(least, most)
    what = outside if wrong["type"] in OUTSIDE else f"is no {kind}"
    return misused(f"{name}: {wrong['input']!r} {what}.", f"Give a {kind}{bounds}. {see}")


def _bounds(least: float | None, most: float | None) -> tuple[str, str]:
    """What a number is that is outside of them, and the end of "Give a number"."""
    if least is None:
        return "", ""
    if most is None:
        return f"is less than {least:g}", f", {least:g} or more"
    return f"is not between {least:g} and {most:g}", f" from {least:g} to {most:g}"
