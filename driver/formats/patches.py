"""What changed between two values, as plain data, and a value made anew from that. Pure.

Used by `encode`: a commit writes what changed, not all there is. What is the same object was not
changed, for values are frozen; so a patch costs what changed, and one look along each mapping and
each tuple that was made anew. Applied to what msgspec made of the value (mappings, lists), so that
an earlier form of a value can be patched without its class.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import compress, count, islice
from operator import is_, is_not
from typing import Any

import msgspec
from msgspec.structs import FieldInfo, astuple, fields

from holdfast.driver.core.state.census import Overlay, plain

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
