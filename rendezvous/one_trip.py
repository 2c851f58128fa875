"""Gloo's groups with one question to the store a member, whatever the size of the group.

gloo sets its own address, then asks for those of all members, each with a wait and a get: 1 + 2n
operations for each of n members. Here the first wait brings them all. `hook` is called in a rank
once torch's groups are loaded. NCCL needs none of it: one member sets, the others get one key.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import Store


class OneTrip(Store):
    """The store of one group of `size`, for as long as it is being made."""

    timeout: timedelta

    def __init__(self, inner: Any, size: int) -> None:
        super().__init__()
        self.set_timeout(inner.timeout)
        self._inner, self._size = inner, size
        self._known: dict[str, bytes] = {}
        self._family = ""  # before the number of a member, once this one has said its own

    def set(self, key: str, value: str | bytes) -> None:
        before, slash, number = key.rpartition("/")
        if number.isdecimal():
            self._family = before + slash
        self._known.pop(key, None)
        self._inner.set(key, value)

    def get(self, key: str) -> bytes:
        self._bring(key, self.timeout)
        return self._known.pop(key) if key in self._known else bytes(self._inner.get(key))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        within = self.timeout if timeout is None else timeout
        for key in keys:
            self._bring(key, within)
        if left := [key for key in keys if key not in self._known]:
            self._inner.wait(left, within)

    def _bring(self, key: str, within: timedelta) -> None:
        """All members' values, where `key` is one of theirs. Each is given once, so that what is
        asked for again is what it is then."""
        if key in self._known or not self._is_of_a_member(key):
            return
        keys = [f"{self._family}{member}" for member in range(self._size)]
        self._family = ""
        before = self._inner.timeout
        self._inner.set_timeout(within)  # a group has one of its own, as torch sets it
        try:
            self._known = dict(zip(keys, self._inner.multi_get(keys), strict=True))
        finally:
            self._inner.set_timeout(before)

    def _is_of_a_member(self, key: str) -> bool:
        number = key.removeprefix(self._family)
        of_family = bool(self._family) and key.startswith(self._family)
        return of_family and number.isdecimal() and int(number) < self._size

    # ------------------------------------------------------------ what is passed on

    def add(self, key: str, amount: int) -> int:
        return int(self._inner.add(key, amount))

    def check(self, keys: Sequence[str]) -> bool:
        return bool(self._inner.check(list(keys)))

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        return bytes(self._inner.compare_set(key, expected, desired))

    def delete_key(self, key: str) -> bool:
        self._known.pop(key, None)
        return bool(self._inner.delete_key(key))

    def num_keys(self) -> int:
        return int(self._inner.num_keys())

    def append(self, key: str, value: str | bytes) -> None:
        self._inner.append(key, value)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return [bytes(value) for value in self._inner.multi_get(list(keys))]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        self._inner.multi_set(list(keys), list(values))

    def has_extended_api(self) -> bool:
        return bool(self._inner.has_extended_api())

    def clone(self) -> "OneTrip":
        return self


_kept: list[Store] = []
"""As in `redis_store`: torch keeps one half of them alone."""


def hook(c10d: Any) -> None:
    """Have gloo's groups made that way, where torch has a place for it: 2.15 has, and 2.9 not."""
    make = getattr(c10d, "_create_gloo_process_group", None)
    if make is None:
        return

    def made(options: Any, backend_options: Any) -> Any:
        if options.store.has_extended_api():
            _kept.append(OneTrip(options.store, options.group_size))
            options.store = _kept[-1]
        return make(options, backend_options)

    c10d._create_gloo_process_group = made
