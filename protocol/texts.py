"""Texts that no process can be given, wherever they stand in a document. Pure.

Called by `protocol.jobcheck`, which tells them among the other mistakes. Must not change a document
that is taken: what is put in their place serves only to find the other mistakes.
"""

import re
from collections.abc import Iterator
from typing import Any

from holdfast.protocol.mistakes import Mistake, path_of

_UNUSABLE = re.compile("[\0\ud800-\udfff]")
"""What ends a C string, and halves of surrogate pairs, which have no bytes in UTF-8."""

_STAND_IN = "x"
_HOLDS_TEXT = (str, dict, list, tuple)


def unusable(document: Any, place: tuple[str | int, ...] = ()) -> Iterator[Mistake]:
    """One mistake for each text in `document`, also a name in a mapping, that cannot be used."""
    if isinstance(document, str):
        yield from _mistake(document, place)
    elif isinstance(document, dict):
        for name, value in document.items():
            yield from _mistake(str(name), place)
            if isinstance(value, _HOLDS_TEXT):
                yield from unusable(value, (*place, mended(str(name))))
    elif isinstance(document, list | tuple):
        for index, value in enumerate(document):
            if isinstance(value, _HOLDS_TEXT):
                yield from unusable(value, (*place, index))


def mended(document: Any) -> Any:
    """The document with something usable in each such place."""
    if isinstance(document, str):
        return _UNUSABLE.sub(_STAND_IN, document)
    if isinstance(document, dict):
        return {mended(str(name)): mended(value) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return [mended(value) for value in document]
    return document


def _mistake(text: str, place: tuple[str | int, ...]) -> Iterator[Mistake]:
    found = _UNUSABLE.search(text)
    if found is None:
        return
    name = "NUL" if found[0] == "\0" else "half of a surrogate pair"
    yield Mistake(
        field=path_of(place),
        value=ascii(text)[:80],
        why=f"character {found.start() + 1} is U+{ord(found[0]):04X} ({name}), which no program "
        "can be given.",
        fix="Remove it.",
    )
