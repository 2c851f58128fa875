"""The state as bytes, for the journal, whole or what changed; with the version of their form. Pure.

A patch has a version, too, and is of the state that was committed before it: a commit writes what
changed, not all there is. What is the same object was not changed, for values are frozen; so a
patch costs what changed, and one look along each mapping and each tuple that was made anew. Applied
to what msgspec made of the value (mappings, lists), so that an earlier form of a value can be
patched without its class.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import compress, count, islice
from operator import is_, is_not
from typing import Any

import msgspec
from msgspec.structs import FieldInfo, astuple, fields, replace

from holdfast.driver.core.state.census import Overlay, plain
from holdfast.driver.core.state.model import State
from holdfast.driver.formats import older, older_tally

VERSION = 7
"""Of the form. One more for each change after which an earlier Holdfast would read another meaning
out of the bytes, or leave out what it must not: a field that only adds is none."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(State)
_VERSIONED = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_PAIR = 0x92
"""What an array of two begins with in MessagePack; the state itself, a mapping, never does. Before
there were versions that was all there was."""


class UnreadableState(ValueError):
    """The state cannot be read; the message says why, and what to do."""


class LaterState(UnreadableState):
    """It was written by a later Holdfast."""


def encode(state: State) -> bytes:
    return _ENCODER.encode((VERSION, settled(state)))


def encode_change(before: State, after: State) -> bytes:
    """What makes `after` of `before`."""
    before = settled(before)
    after = after if before.nodes else settled(after)  # the first nodes are written whole
    return _ENCODER.encode((VERSION, diff(before, after)))


def settled(state: State) -> State:
    """The same, with its nodes in a dict, as it is kept and written."""
    return state if isinstance(state.nodes, dict) else replace(state, nodes=plain(state.nodes))


def fold(whole: bytes, changes: Iterable[bytes]) -> bytes:
    """The state after all changes, as `encode` would give it, but for the order of fields. Raises
    `UnreadableState`.
    """
    try:
        version, state = _parts(whole)
        value = msgspec.msgpack.decode(state)
        for each in changes:  # of one term with the whole, and of one Holdfast therefore
            value = apply(value, msgspec.msgpack.decode(_parts(each)[1]))
    except UnreadableState:
        raise
    except (*_DAMAGED, ValueError) as error:
        raise _damaged(error) from error
    return _ENCODER.encode((version, value))


def decode(data: bytes) -> State:
    """The state in `data`. Raises `UnreadableState`."""
    try:
        version, state = _parts(data)
        if version == VERSION:
            return _DECODER.decode(state)
        value = older.upgraded(msgspec.msgpack.decode(state), version)
        return older_tally.of_today(_DECODER.decode(_ENCODER.encode(value)), older.running(value))
    except UnreadableState:
        raise
    except (*_DAMAGED, ValueError) as error:
        raise _damaged(error) from error


_DAMAGED = (msgspec.DecodeError, AttributeError, IndexError, KeyError, TypeError)
"""What a patch meets that is not of the value that it is put on."""


def _damaged(error: Exception) -> UnreadableState:
    if isinstance(error, msgspec.ValidationError) and "Invalid enum value" in str(error):
        # A word more, as of what is found, is no reason for a version: where none is there, an
        # earlier Holdfast reads the state.
        return LaterState(
            f"journal: its state has a word that this Holdfast does not know ({error}): it was "
            "written by a later one. Start that, or put a journal back from before."
        )
    return UnreadableState(
        f"journal: its state is damaged ({type(error).__name__}: {error}). Put a journal back from "
        "a backup, or start with another --state."
    )


def _parts(data: bytes) -> tuple[int, bytes | msgspec.Raw]:
    """The version, and what stands beside it."""
    if data[:1] != bytes([_PAIR]):
        return 0, data
    version, state = _VERSIONED.decode(data)
    if version > VERSION:
        raise LaterState(
            f"journal: its state has version {version}, and this Holdfast knows {VERSION} and "
            "earlier: it was written by a later one. Start that, or put a journal back from before."
        )
    return version, state


REPLACED, FIELDS, ITEMS, ELEMENTS = range(4)
PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
Patch = list[Any]
"""[REPLACED, value] · [FIELDS, {name: patch}] · [ITEMS, [[key, patch], …], [key gone, …]] ·
[ELEMENTS, [index gone, …], [added at the end, …]]."""


def diff(old: Any, new: Any) -> Patch:
    """The patch that makes `new` of `old`, the order of its mappings too."""
    if isinstance(new, Overlay):
        put = new.over(old)
        return diff(old, plain(new)) if put is None else _of_put(old, put)
    if type(old) is type(new) and old:
        if isinstance(new, msgspec.Struct) and not new.__struct_config__.array_like:
            return [FIELDS, _of_fields(old, new)]
        if type(new) is dict:
            if list(new)[: len(old)] == list(old):  # the usual case, in C
                return _of_grown(old, new)
            if _keeps_order(old, new):
                return _of_items(old, new)
        if type(new) is tuple and (patch := _of_elements(old, new)):
            return patch
    return [REPLACED, new]


def _of_fields(old: msgspec.Struct, new: msgspec.Struct) -> dict[str, Patch]:
    """What has its default is left out of what is written: so it is replaced, not patched."""
    changed: dict[str, Patch] = {}
    others = map(is_not, astuple(old), astuple(new))  # nearly all are the same objects
    for field in compress(_fields(type(new)), others):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if not _same(before, after):
            patched = [REPLACED, after] if before == _default(field) else diff(before, after)
            changed[field.encode_name] = patched
    return changed


def _same(old: Any, new: Any) -> bool:
    """Equal mappings may differ in their order, so of what holds others only the same object is."""
    return old is new or (type(old) is type(new) and type(new) in PLAIN and old == new)


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[FieldInfo, ...]:
    return fields(kind)


def _default(field: FieldInfo) -> Any:
    made = field.default_factory
    return field.default if made is msgspec.NODEFAULT else made()


def _keeps_order(old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    """Whether what was there is in the same order, and before all that was added."""
    kept = [key for key in old if key in new]
    return all(a == b for a, b in zip(kept, new, strict=False))


def _of_items(old: dict[Any, Any], new: dict[Any, Any]) -> Patch:
    gone = [key for key in old if key not in new]
    changed = [
        [key, diff(old[key], value) if key in old else [REPLACED, value]]
        for key, value in new.items()
        if key not in old or not _same(old[key], value)
    ]
    return [ITEMS, changed, gone]


def _of_grown(old: dict[Any, Any], new: dict[Any, Any]) -> Patch:
    """Of a mapping that has all keys of `old` in their order, and perhaps more behind them."""
    others = compress(new, map(is_not, old.values(), new.values()))
    changed = [[key, diff(old[key], new[key])] for key in others if not _same(old[key], new[key])]
    added = [[key, [REPLACED, new[key]]] for key in islice(new, len(old), None)]
    return [ITEMS, changed + added, []]


def _of_put(old: dict[Any, Any], put: Mapping[Any, Any]) -> Patch:
    """Of a mapping that has all of `old`, with these put over it."""
    changed = [
        [key, diff(old[key], value) if key in old else [REPLACED, value]]
        for key, value in put.items()
        if key not in old or not _same(old[key], value)
    ]
    return [ITEMS, changed, []]


def _of_elements(old: tuple[Any, ...], new: tuple[Any, ...]) -> Patch | None:
    """None where `new` is not `old` without some and with more at the end, or where that is most
    of it. What is usual is found in C: more at the end, or some of those in a row gone."""
    same = _same_at_first(old, new)
    if same == len(old):
        return [ELEMENTS, [], new[same:]]
    rest = new[same:]
    if same + len(rest) < len(old) and all(map(is_, reversed(old), reversed(rest))):
        return [ELEMENTS, list(range(same, len(old) - len(rest))), []]
    gone, at = list[int](), same
    for index in range(same, len(old)):
        if at < len(new) and _same(old[index], new[at]):
            at += 1
        else:
            gone.append(index)
    added = new[at:]
    return [ELEMENTS, gone, added] if len(gone) + len(added) < len(new) else None


def _same_at_first(old: tuple[Any, ...], new: tuple[Any, ...]) -> int:
    """How many from the first one on are the same objects: counted in C, for they are thousands."""
    return next(compress(count(), map(is_not, old, new)), min(len(old), len(new)))


def apply(value: Any, patch: Patch) -> Any:
    """The patched value; what `value` holds is used again, and may be changed."""
    match patch:
        case [0, replaced]:
            return replaced
        case [1, changed]:
            for name, each in changed.items():
                value[name] = apply(value.get(name), each)
        case [2, changed, gone]:
            for key in gone:
                del value[key]
            for key, each in changed:
                value[key] = apply(value.get(key), each)
        case [3, gone, added]:
            value = [*_without(value, set(gone)), *added]
        case _:
            raise ValueError(f"journal: a patch of an unknown kind: {patch[:1]}")
    return value


def _without(elements: Iterable[Any], gone: set[int]) -> list[Any]:
    return [each for index, each in enumerate(elements) if index not in gone]
