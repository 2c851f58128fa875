"""A copy of a collection, folded from lists and events. Pure.

Used by `reflector`. Knows what is new by resource versions, which API servers promise to be
comparable whole numbers within a collection [KEP-5504]: so an event may come twice or out of
order. Must not be changed by anybody else.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.kubeapi.errors import Malformed

Object = dict[str, Any]
Field = Sequence[str]
"""Where a field is: ("status", "images")."""

MANAGED: Field = ("metadata", "managedFields")
"""Half of an object's size, and nobody's need."""


class Synced(msgspec.Struct, frozen=True):
    """A list was read to its end: what was told until now is all that there is."""


class Changed(msgspec.Struct, frozen=True):
    """There is this object, new or changed; `object` is what is kept of it."""

    object: Any


class Removed(msgspec.Struct, frozen=True):
    """This object is gone; as it was last, which may be older than its end."""

    object: Any


Change = Synced | Changed | Removed


class Mirror:
    """`store` by key (`key_of`), each object `without` fields that nobody needs and without
    `managedFields`. `promised` is the version up to which nothing is missing, `told` that of the
    newest event, or of the list, that was told whole.
    """

    def __init__(self, without: Sequence[Field] = ()) -> None:
        self._without = (MANAGED, *without)
        self.store: dict[str, Any] = {}
        self.promised = 0
        self.told = 0
        self._newest: dict[str, int] = {}  # version of the newest event by key since `promised`

    def page(self, objects: Iterable[Object], listed: set[str]) -> Iterator[Change]:
        """A page of a list; the keys in it are added to `listed`."""
        for listed_object in objects:
            key = key_of(listed_object)
            listed.add(key)
            kept = self._keep(listed_object)
            if self.store.get(key) != kept:  # versions alone: a store set back reuses them
                yield from self._put(key, kept)

    def end(self, listed: set[str], page: Object) -> Iterator[Change]:
        """`page` was the last of a list: what is not in `listed` is gone."""
        version = version_of(page)
        for key in [key for key in self.store if key not in listed]:
            yield Removed(self._take(key))
        self._promise(version)
        yield Synced()

    def event(self, kind: str, told: Object) -> Iterator[Change]:
        """An event of a watch; nothing comes of one that is older than what is known."""
        version = version_of(told)
        if kind == "BOOKMARK":
            if version > self.promised:
                self._promise(version)
            return
        key = key_of(told)
        if version <= max(self.promised, self._newest.get(key, 0)):
            return
        self._newest[key], self.told = version, max(self.told, version)
        if kind != "DELETED":
            yield from self._put(key, self._keep(told))
        elif key in self.store:
            known, last = self._take(key), self._keep(told)
            yield Removed(last if self._uid(known) == self._uid(last) else known)

    def _put(self, key: str, kept: Any) -> Iterator[Change]:
        """One that has another UID is another object: the one before it is gone."""
        known = self.store.get(key)
        if known is not None and self._uid(known) != self._uid(kept):
            yield Removed(self._take(key))
        self._set(key, kept)
        yield Changed(kept)

    def _set(self, key: str, kept: Any) -> None:
        self.store[key] = kept

    def _take(self, key: str) -> Any:
        return self.store.pop(key)

    def _uid(self, kept: Any) -> str:
        return str(kept["metadata"].get("uid", ""))

    def _keep(self, told: Object) -> Any:
        """What is kept of an object: itself without the fields that nobody needs."""
        for *within, last in self._without:
            holder: Any = told
            for name in within:
                holder = holder.get(name, {})
            holder.pop(last, None)
        return told

    def _promise(self, version: int) -> None:
        self.promised = self.told = version
        self._newest.clear()


def key_of(told: Mapping[str, Any]) -> str:
    """NAMESPACE/NAME, or NAME where there is no namespace."""
    metadata = told["metadata"]
    namespace = metadata.get("namespace", "")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def version_of(told: Mapping[str, Any]) -> int:
    """Raises `Malformed` where it is not a number: nothing can be said of such a server."""
    said = told["metadata"].get("resourceVersion", "")
    if not said.isdecimal():
        raise Malformed(f"resourceVersion {said!r} is not a whole number")
    return int(said)
