"""Regular expressions that take time in proportion to the text, whatever they are: RE2.

Used where patterns are a person's: a rule like `(\\w+\\s?)+: fatal` costs Python's `re` seconds on
27 characters. RE2 is imported with the first pattern that is more than plain words.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

LACKING = (
    (r"\(\?=|\(\?!", "a lookahead", "Match what follows, too, or write two rules."),
    (r"\(\?<=|\(\?<!", "a lookbehind", "Match what comes before, too."),
    (r"\\[1-9]|\(\?P=", "a backreference", "Write out what is repeated."),
    (r"\(\?\(", "a conditional group", "Write both cases with |."),
    (r"\(\?>|[*+?}]\+", "a possessive or atomic group", "Leave it out: nothing is tried twice."),
    (r"\(\?#", "a comment", "Leave it out."),
    (r"\(\?\w*[aLux]", "a flag other than i, m, s", "Leave the flag out."),
    (r"\\Z", "\\Z", "Write \\z, or $."),
    (r"\{\d+(,\d*)?\}", "a repetition of more than 1,000", "Repeat less often in all."),
    (r"\\[uUN]", "a character by its number or name", "Write the character, or \\x{2603}."),
)
"""What Python's `re` has and RE2 has not: how it is written, its name, what to write instead."""
_UNBOUND = re.compile(r"(?<!\\)\{,\d+\}")
"""RE2 takes this literally, where Python means "at most"."""
_BOUND = re.compile(r"\\[Az]|\(\?\w*-")
"""Bound to the whole text, whatever lines it has."""
_ESCAPED = re.compile(r"\\\\|\[\^?\]?(?:\\.|[^]\\])*\]")
"""What may look like any of these and is not: a backslash itself, and a set of characters."""


class NoPattern(ValueError):
    """The text is no pattern; the message is a sentence, `fix` what to write instead."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.fix = fix


class Patterns:
    """Patterns that are searched together. Raises `NoPattern` for the first that is none."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self.patterns = patterns
        self._each = [compiled(pattern) for pattern in patterns]
        self._all = _together(patterns) if patterns else None
        self._lines = _together(tuple(map(_of_lines, patterns))) if patterns else None

    def found(self, text: str) -> list[tuple[str, int]]:
        """Each pattern that is somewhere in `text`, and where it begins, in their order."""
        if self._all is None or not (numbers := self._all.Match(text)):
            return []
        hits = [(number, self._each[number].search(text)) for number in sorted(numbers)]
        return [(self.patterns[number], hit.start()) for number, hit in hits if hit is not None]

    def lines(self, text: str, wanted: Callable[[str], bool]) -> Iterator[str]:
        """The lines of `text` that may have a pattern for which `wanted` is true by then.

        Halves of the text are searched, and halves of these: a hundred times sooner than each line.
        """
        if self._lines is None or not (numbers := self._lines.Match(text)):
            return
        if not any(wanted(self.patterns[number]) for number in numbers):
            return
        middle = text.find("\n", len(text) // 2)
        middle = middle if middle >= 0 else text.rfind("\n")
        if middle < 0:
            yield text
        else:
            yield from self.lines(text[:middle], wanted)
            yield from self.lines(text[middle + 1 :], wanted)


def check(pattern: str) -> None:
    """Raises `NoPattern`. Plain words are always one."""
    if re.escape(pattern) != pattern:
        compiled(pattern)


def compiled(pattern: str) -> Any:
    """An object with `search`. Raises `NoPattern`."""
    import re2

    plain = _ESCAPED.sub("", pattern)
    if (bound := _UNBOUND.search(plain)) is not None:
        raise NoPattern(f"{bound[0]} has no lower bound.", f"Write {{0{bound[0][1:]}.")
    try:
        return re2.compile(pattern, _options())
    except re2.error as error:
        raise _refused(error.args[0].decode(errors="replace"), plain) from error


def _refused(why: str, plain: str) -> NoPattern:
    for how, name, fix in LACKING:
        if re.search(how, plain):
            return NoPattern(f"this has {name}, which RE2, our engine, has not.", fix)
    return NoPattern(
        f"this is not a regular expression: {why}.",
        "Escape what is meant literally with a backslash.",
    )


def _of_lines(pattern: str) -> str:
    """One that is found in a text wherever `pattern` is in a line of it; at times elsewhere too."""
    return "" if _BOUND.search(pattern) else f"(?m:{pattern})"


def _together(patterns: tuple[str, ...]) -> Any:
    import re2

    found = re2.Set.SearchSet(_options())
    for pattern in patterns:
        found.Add(pattern)
    found.Compile()
    return found


def _options() -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    return options
