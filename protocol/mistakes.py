"""What is wrong with a document, field by field, in sentences: pydantic's words made ours. Pure.

Called by `protocol.jobcheck.check`; the REST edge and the command line show what it returns. Must
not stop at the first mistake.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import msgspec

from holdfast.kit import alike

SHOWN_CHARACTERS = 80
"""A value longer than this is cut in a message: it is there to be recognised, not read."""


MOST_TOLD = 100
"""Mistakes of one document that are told: more than a person reads, and each takes its time to be
put into words (a name that is not known is compared with all that are)."""


class Mistake(msgspec.Struct, frozen=True, kw_only=True):
    """One mistake: where, what was there, why it is wrong, and what to write instead."""

    field: str  # e.g. "spec.topology.dp"; "" for the document itself
    value: str  # as JSON would show it, cut; "" where nothing was given
    why: str
    fix: str

    def __str__(self) -> str:
        return f"{self.field or 'document'}: {self.why}  {self.fix}".rstrip()


class BadDocument(ValueError):
    """A document was refused. `mistakes` has what is wrong with it, by field: all, or the first
    MOST_TOLD and in `more` how many others there are.
    """

    def __init__(self, mistakes: Iterable[Mistake], *, more: int = 0) -> None:
        given = tuple(mistakes)
        self.mistakes = given[:MOST_TOLD]
        self.more = more + len(given) - len(self.mistakes)
        super().__init__("; ".join(self.sentences))

    @property
    def sentences(self) -> tuple[str, ...]:
        """One for each mistake that is told, and one for the rest."""
        rest = (f"and {self.more:,} more",) if self.more else ()
        return (*map(str, self.mistakes), *rest)


def shown(value: object) -> str:
    """`value` as JSON on one line, cut to what a message can carry."""
    if isinstance(value, float) and not isfinite(value):
        return f"{value}"  # JSON has no word for it, and would say null
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, UnicodeEncodeError):
        text = ascii(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def path_of(place: Iterable[str | int]) -> str:
    """`("spec", "logRules", 0, "pattern")` as `spec.logRules[0].pattern`."""
    path = ""
    for part in place:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def field_of(error: Mapping[str, Any]) -> str:
    """The field that one of pydantic's errors is about."""
    return path_of(_place(error))


def _place(error: Mapping[str, Any]) -> tuple[str | int, ...]:
    return tuple(part for part in error["loc"] if part != "[key]")


def in_our_words(error: Mapping[str, Any], known: Sequence[str]) -> Mistake:
    """One of pydantic's errors as a `Mistake`; `known` are the field names where it happened."""
    place = _place(error)
    kind, context = error["type"], dict(error.get("ctx", {}))
    hidden = kind in ("missing", "json_invalid") or context.get("secret")
    value = "" if hidden else shown(error["input"])
    if kind == "extra_forbidden":
        why, fix = _unknown(str(place[-1]), known)
    elif kind == "sentence":
        why, fix = context["why"], context["fix"]
    else:
        why, fix = _sentence(kind, context, value, str(error["msg"]))
    return Mistake(field=field_of(error), value=value, why=why, fix=fix)


def _unknown(name: str, known: Sequence[str]) -> tuple[str, str]:
    nearest = alike.near(name, known, most=1)
    if nearest:
        return f"there is no field {name!r} here.", f"Did you mean {nearest[0]!r}?"
    fix = f"Known here: {', '.join(sorted(known))}." if known else "Leave it out."
    return f"there is no field {name!r} here.", fix


_NUMBER_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
_LENGTH_BOUNDS = {
    "too_short": ("at least", "min_length", "entries"),
    "too_long": ("at most", "max_length", "entries"),
    "string_too_short": ("at least", "min_length", "characters"),
    "string_too_long": ("at most", "max_length", "characters"),
}
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "string": "text",
    "bool": "true or false",
    "tuple": "a list",
    "list": "a list",
    "dict": "a mapping of names to values",
    "model": "a mapping of names to values",
}


def _sentence(kind: str, context: dict[str, Any], value: str, message: str) -> tuple[str, str]:
    """Why, and the fix, for an error that has no sentence of its own."""
    if kind == "missing":
        return "it is missing.", "Add it."
    if kind == "json_invalid":
        return f"it cannot be read: {context['error']}.", "A job is a few levels deep."
    if kind in _NUMBER_BOUNDS:
        words, key = _NUMBER_BOUNDS[kind]
        return f"{value} is out of bounds.", f"Set {words} {_plain(context[key])}."
    if kind in _LENGTH_BOUNDS:
        words, key, unit = _LENGTH_BOUNDS[kind]
        return f"{value} has the wrong length.", f"Give {words} {context[key]} {unit}."
    if kind == "string_pattern_mismatch":
        return f"{value} is not valid here.", f"It must match {context['pattern']}"
    if kind in ("literal_error", "enum"):
        return f"{value} is not one of the choices.", f"Write {context['expected']}."
    wanted = _TYPES.get(kind.split("_")[0])
    if wanted is None:
        return f"{value}: {message}.", "See `holdfast submit --schema`."
    return f"{value} is not {wanted}.", f"Write {_meant(wanted, value) or wanted}."


def _plain(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else str(bound)


def _meant(wanted: str, value: str) -> str:
    """A number in quotes, or text without them, can be written out for whoever meant it."""
    bare = value.strip('"')
    is_number = bare.replace(".", "", 1).lstrip("-").isdigit()
    if "number" in wanted and bare != value and is_number:
        return f"{bare}, without quotes"
    if wanted == "text" and (is_number or bare in ("true", "false")):
        return f'"{bare}", with quotes'
    return ""
