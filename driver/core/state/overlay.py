"""A mapping that differs from another in a few values, made without a copy of all of it. Pure.

Used by `Turn` for the nodes of a state, of which one word changes one of thousands. Its order is
that of a dict which was copied and written to. What goes out of the core is a dict again: `plain`.
"""

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import Generic, TypeVar

V = TypeVar("V")

FEW = 64
"""So many values may differ, or a thirty-second of all; with more a copy costs less in the end."""


class Overlay(Mapping[str, V], Generic[V]):
    """`put` is for whoever made it, until it is given away. Values are never None."""

    __slots__ = ("_added", "_base", "_top", "puts")

    def __init__(self, before: Mapping[str, V]) -> None:
        self._base: Mapping[str, V] = before
        self._top: dict[str, V] = {}
        self._added = 0  # of them those that are new
        self.puts: list[str] = []  # what was put here, one after the other
        if isinstance(before, Overlay) and len(before._top) <= max(FEW, len(before._base) // 32):
            self._base, self._top, self._added = before._base, dict(before._top), before._added
        elif isinstance(before, Overlay):
            self._base = plain(before)

    def over(self, before: Mapping[str, V]) -> Mapping[str, V] | None:
        """What was put over this very mapping; None where it lies over another."""
        return self._top if self._base is before else None

    def put(self, key: str, value: V) -> None:
        if key not in self._top:
            self._added += key not in self._base
        self._top[key] = value
        self.puts.append(key)

    def __getitem__(self, key: str) -> V:
        value = self._top.get(key)
        return self._base[key] if value is None else value

    def get(self, key: str, default: V | None = None) -> V | None:  # type: ignore[override]
        value = self._top.get(key)
        return self._base.get(key, default) if value is None else value

    def __contains__(self, key: object) -> bool:
        return key in self._base or key in self._top

    def __iter__(self) -> Iterator[str]:
        yield from self._base
        if self._added:
            yield from (key for key in self._top if key not in self._base)

    def values(self) -> ValuesView[V]:
        """Of a copy: that is many times quicker than to look each of them up here."""
        return plain(self).values()

    def items(self) -> ItemsView[str, V]:
        """As `values`."""
        return plain(self).items()

    def __len__(self) -> int:
        return len(self._base) + self._added


def layers(mapping: Mapping[str, V]) -> tuple[Mapping[str, V], Mapping[str, V]]:
    """What lies below, and what was put over it: nothing over a dict."""
    return (mapping._base, mapping._top) if isinstance(mapping, Overlay) else (mapping, {})


def plain(mapping: Mapping[str, V]) -> dict[str, V]:
    """The same as a dict; a dict itself where it is one."""
    if isinstance(mapping, dict):
        return mapping
    return {**mapping._base, **mapping._top} if isinstance(mapping, Overlay) else dict(mapping)
