"""Answers of the driver as structs of the client: source text, from the driver's own classes. Pure.

A class of ours is written once, those that it is made of before it. `View` at the end of a name is
left out: it is the driver's word.
"""

import types
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec
from pydantic import BaseModel

from holdfast.kit.documented import sentences

WIDTH = 90
"""Characters of a sentence that is on one line with its marks."""

HEAD = '''"""What the driver answers, as structs. Written by `python -m holdfast.lab.client`."""

from typing import Any

import msgspec


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Base of them. What a newer driver tells beside is passed over."""
'''


def is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel | msgspec.Struct)


def name_of(kind: type) -> str:
    """`Job` of `JobView`."""
    return kind.__name__.removesuffix("View")


def source(kinds: Iterable[type]) -> str:
    """The whole module."""
    ordered: dict[type, None] = {}
    for kind in kinds:
        _collect(kind, ordered)
    names = [name_of(kind) for kind in ordered]
    assert len(names) == len(set(names)), f"two answers of one name: {sorted(names)}"
    return "\n\n".join([HEAD, *(_written(kind) for kind in ordered)])


def annotation(kind: Any) -> str:
    """How a type is written there."""
    if kind is None or kind is type(None):
        return "None"
    if kind is Any:
        return "Any"
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return annotation(inner[0])
    if origin in (Union, types.UnionType):
        return " | ".join(annotation(each) for each in inner)
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, inner))}]"
    if inner:
        listed = ", ".join("..." if each is ... else annotation(each) for each in inner)
        return f"{origin.__name__}[{listed}]"
    return name_of(kind) if is_model(kind) else _plain(kind)


def _plain(kind: Any) -> str:
    """Words of an enumeration are text to the client: a newer driver may have more of them."""
    return "str" if issubclass(kind, str) else str(kind.__name__)


def _collect(kind: Any, ordered: dict[type, None]) -> None:
    """Those that it is made of, then it."""
    if is_model(kind):
        for field in _fields(kind):
            _collect(field.kind, ordered)
        ordered.setdefault(kind)
    for inner in get_args(kind):
        _collect(inner, ordered)


class Field(msgspec.Struct, frozen=True):
    """Of an answer. `sent`: its name in JSON; `default`: as source, "" where it has none."""

    name: str
    sent: str
    kind: Any
    default: str = ""
    says: str = ""


def _fields(kind: type) -> Iterator[Field]:
    if issubclass(kind, BaseModel):
        said = sentences(kind)
        for name, each in kind.model_fields.items():
            default = "" if each.is_required() else repr(each.get_default())
            sent = each.serialization_alias or name
            yield Field(name, sent, each.annotation, default, said.get(name, ""))
        return
    for part in msgspec.structs.fields(cast(type[msgspec.Struct], kind)):
        default = ""
        if part.default is not msgspec.NODEFAULT:
            default = repr(part.default)
        elif part.default_factory is not msgspec.NODEFAULT:
            default = repr(part.default_factory())
        yield Field(part.name, part.encode_name, part.type, default)


def _written(kind: type) -> str:
    lines = [f"class {name_of(kind)}(Model, frozen=True, kw_only=True):"]
    lines += _docstring(kind.__doc__ or "An answer.")
    lines.append("")
    for field in _fields(kind):
        given = f" = {field.default}" if field.default else ""
        if field.sent != field.name:
            default = f", default={field.default}" if field.default else ""
            given = f' = msgspec.field(name="{field.sent}"{default})'
        lines.append(f"    {field.name}: {annotation(field.kind)}{given}")
        lines += _docstring(field.says) if field.says else []
    return "\n".join(lines) + "\n"


def _docstring(text: str) -> list[str]:
    rows = [row.strip() for row in text.strip().splitlines()]
    rows = wrap(rows[0], WIDTH) if len(rows) == 1 else rows
    if len(rows) == 1:
        return [f'    """{rows[0]}"""']
    end = '    """' if len(rows[-1]) > 90 else ""
    body = [f"    {row}".rstrip() for row in rows[1:]]
    if not end:
        body[-1] += '"""'
    return [f'    """{rows[0]}', *body, *([end] if end else [])]
