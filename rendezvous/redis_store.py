"""A `torch.distributed.Store` on Redis: it outlives the node of rank 0, which a TCPStore does not.

Made in a rank by `install`, or by any script: `init_process_group(store=RedisStore(...))`. One
round trip an operation, waits too. Needs one server (no cluster of them) of Redis 6.2 or newer.
"""

import itertools
import struct
import threading
import time
import uuid
import weakref
from collections.abc import Iterator, Sequence
from datetime import timedelta
from hashlib import sha1
from typing import Any

import redis
from torch.distributed import DistNetworkError, DistStoreError, Store

from holdfast.kit.backoff import full_jitter
from holdfast.rendezvous import scripts

KEPT_S = 30 * 86_400
"""How long a key lasts that nobody writes again: what a job leaves is gone after a month."""

FAMILY = 3
"""Siblings from which on they are fetched in one piece: fewer are as quickly fetched one by one."""

_open: set[Store] = set()
"""torch keeps the C++ half of a store that is written in Python, and not the Python half."""

_SHA = {
    name: sha1(text.encode(), usedforsecurity=False).hexdigest()
    for name, text in vars(scripts).items()
    if name.isupper() and not name.startswith("_")
}

NAMED = 10
"""Keys that are named where more are missing."""

Command = tuple[Any, ...]


class _Late(Exception):
    """A key did not come in time."""


class RedisStore(Store):  # type: ignore[misc]
    """What ranks of one attempt of one job tell each other. Safe in several threads.

    `attempt` only grows: once a later one has begun, one of an earlier raises `DistStoreError`, and
    writes nothing. So does a key that is not there in time, and a server that does not answer
    raises `DistNetworkError`: `timeout` bounds both.
    """

    def __init__(
        self,
        url: str,
        *,
        job: str,
        attempt: int,
        timeout: timedelta = timedelta(minutes=5),
        password: str | None = None,
    ) -> None:
        super().__init__()
        self.set_timeout(timeout)
        secret = {} if password is None else {"password": password}
        self._pool = redis.ConnectionPool.from_url(url, socket_connect_timeout=5, **secret)
        self._hang_up = weakref.finalize(self, self._pool.disconnect)
        _open.add(self)
        self._named = f"the rendezvous at {url}"
        self._prefix = f"holdfast:{{{job}}}:"
        self._attempt = attempt
        self._stem = f"{self._prefix}{attempt}:k:"
        self._index = f"{self._prefix}{attempt}:index"
        self._tokens = (f"{uuid.uuid4().hex}-{number}" for number in itertools.count())
        self._script("CHECK", [])

    # ------------------------------------------------------------ torch's interface

    def set(self, key: str, value: str | bytes) -> None:
        self.multi_set([key], [value])

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        self._script("SET", keys, *values)

    def get(self, key: str) -> bytes:
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return self._family(keys) if _is_family(keys) else self._each(keys, self.timeout)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self._each(keys, timeout or self.timeout)

    def check(self, keys: Sequence[str]) -> bool:
        return not self._script("CHECK", keys)

    def add(self, key: str, amount: int) -> int:
        try:
            return int(self._script("ADD", [key], next(self._tokens), amount))
        except redis.ResponseError as error:
            raise DistStoreError(f"{key} holds no number, so nothing can be added: {error}") from error

    def append(self, key: str, value: str | bytes) -> None:
        self._script("APPEND", [key], next(self._tokens), value)

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        return bytes(self._script("COMPARE_SET", [key], expected, desired))

    def delete_key(self, key: str) -> bool:
        return bool(self._script("DELETE", [key], next(self._tokens)))

    def num_keys(self) -> int:
        return len(self._script("KEYS", []))

    def list_keys(self) -> list[str]:
        return [self._short(key) for key in self._script("KEYS", [])]

    def has_extended_api(self) -> bool:
        return True

    def clone(self) -> "RedisStore":
        return self  # threads do not wait for each other here

    def close(self) -> None:
        """End its connections. What it wrote stays; no group may need it any more."""
        _open.discard(self)
        self._hang_up()

    # ------------------------------------------------------------ how it is asked

    def _each(self, keys: Sequence[str], timeout: timedelta) -> list[bytes]:
        """The values of all, once they are there: asked for at once, answered one by one."""
        return self._waited([self._order("CHECK", [])], keys, timeout, of=keys)

    def _family(self, keys: Sequence[str]) -> list[bytes]:
        """The same of siblings 0 to n - 1, which come in one piece."""
        family = keys[0][:-1]
        want = self._order("WANT", [family], len(keys))
        [told] = self._waited([want], [f"{family}#table-{len(keys)}"], self.timeout, of=keys)
        return list(_pieces(told))

    def _waited(
        self, orders: Sequence[Command], waits: Sequence[str], timeout: timedelta, of: Sequence[str]
    ) -> list[bytes]:
        """What comes under `waits` after the orders; `of` are the keys that somebody has to set."""
        stems = [self._stem + key for key in waits]
        try:
            return self._ask(orders, waits=stems, timeout=timeout)[len(orders) :]
        except _Late:
            missing = [self._short(key) for key in self._script("CHECK", of)]
            raise DistStoreError(_told_late(missing, len(of), timeout)) from None

    def _script(self, name: str, keys: Sequence[str], *own: Any) -> Any:
        return self._ask([self._order(name, keys, *own)], timeout=self.timeout)[0]

    def _order(self, name: str, keys: Sequence[str], *own: Any) -> Command:
        fence, stems = f"{self._prefix}attempt", [self._stem + key for key in keys]
        every = (self._attempt, KEPT_S * 1000, self._prefix)
        return ("EVALSHA", _SHA[name], 2 + len(keys), fence, self._index, *stems, *every, *own)

    def _ask(
        self, orders: Sequence[Command], *, waits: Sequence[str] = (), timeout: timedelta
    ) -> list[Any]:
        """Send all in one piece; the replies. What is lost with its connection is sent again."""
        deadline = time.monotonic() + timeout.total_seconds()
        pauses = full_jitter(base_s=0.05, cap_s=1.0)
        while True:
            try:
                return self._once(orders, waits, deadline)
            except redis.exceptions.NoScriptError:
                self._load(deadline)
            except (redis.ConnectionError, redis.TimeoutError) as error:
                pause_s = next(pauses)
                if time.monotonic() + pause_s >= deadline:
                    why = f"{self._named} does not answer: {error} Is it running, and reachable?"
                    raise DistNetworkError(why) from error
                threading.Event().wait(pause_s)

    def _once(self, orders: Sequence[Command], waits: Sequence[str], deadline: float) -> list[Any]:
        left_s = max(0.001, deadline - time.monotonic())
        connection = self._pool.get_connection()
        answered = False
        try:
            moves = [("BLMOVE", key, key, "LEFT", "LEFT", f"{left_s:.3f}") for key in waits]
            connection.send_packed_command(connection.pack_commands([*orders, *moves]))
            replies = [self._reply(connection, left_s) for _ in orders]
            for key in waits:
                found = self._reply(connection, left_s)
                if found is None:
                    raise _Late(key)
                replies.append(found)
            answered = True
            return replies
        finally:
            if not answered:
                connection.disconnect()  # replies may be on their way that nobody reads
            self._pool.release(connection)

    def _reply(self, connection: Any, left_s: float) -> Any:
        try:
            return connection.read_response(timeout=left_s + 5, disable_decoding=True)
        except redis.ResponseError as error:
            word, _, newest = str(error).partition(" ")
            if word != "OVER":
                raise
            why = f"attempt {self._attempt} is over: attempt {newest} has begun; nothing is written"
            raise DistStoreError(why) from None

    def _load(self, deadline: float) -> None:
        loads = [("SCRIPT LOAD", getattr(scripts, name)) for name in _SHA]
        self._once(loads, (), deadline)

    def _short(self, key: bytes) -> str:
        return key.decode().removeprefix(self._stem)


def _told_late(missing: Sequence[str], asked: int, timeout: timedelta) -> str:
    names = ", ".join(missing[:NAMED]) + (", …" if len(missing) > NAMED else "")
    what = f"{len(missing)} of {asked} keys were set by no rank: {names}"
    return f"wait timeout after {timeout.total_seconds():g} s: {what}"


def _is_family(keys: Sequence[str]) -> bool:
    """Whether they end in /0, /1, … and are alike before."""
    stem = keys[0][:-1] if len(keys) >= FAMILY else ""
    return stem.endswith("/") and all(key == f"{stem}{at}" for at, key in enumerate(keys))


def _pieces(told: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(told):
        (length,) = struct.unpack_from(">I", told, at)
        yield told[at + 4 : at + 4 + length]
        at += 4 + length
