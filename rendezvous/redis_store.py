"""A `torch.distributed.Store` on Redis: it outlives the node of rank 0, which a TCPStore does not.

Made in a rank by `install`, or by any script: `init_process_group(store=RedisStore(...))`. One
round trip an operation, waits too. Needs one server (no cluster of them) of Redis 6.2 or newer.
"""

import itertools
import logging
import struct
import threading
import time
import uuid
import weakref
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Self

import redis
from torch._C._distributed_c10d import Store
from torch.distributed import DistError, DistNetworkError, DistStoreError

from holdfast.kit.backoff import full_jitter
from holdfast.rendezvous.orders import SCRIPTS, Command, Orders, family_of

NAMED = 10
"""Keys that are named where more are missing."""

CONNECT_LIMIT_S = 5.0
ANSWER_SPARE_S = 5.0
"""Beyond the wait that the server was asked for, until its connection is given up."""

ANSWERS_IN_S = 10.0
"""What asks for no wait is asked again after so long: its server stands still."""

SILENT_S = 2.0
"""A server that is away longer is told of: its ranks stand still, and nobody else knows why."""

_LOG = logging.getLogger("holdfast.rendezvous")

_open: set[Store] = set()
"""torch keeps the C++ half of a store that is written in Python, and not the Python half."""


class _Late(Exception):
    """A key did not come in time."""


class _NoNumber(Exception):
    """A key holds something to which no number can be added."""


class RedisStore(Store):
    """What ranks of one attempt of one job tell each other. Safe in several threads.

    `attempt` only grows: once a later one has begun, one of an earlier raises `DistStoreError`, and
    writes nothing. So does a key that is not there in time, and a server that does not answer
    raises `DistNetworkError`: `timeout` bounds both. One that refuses: `DistError`, for no peer is
    lost.
    """

    timeout: timedelta

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
        self._pool = redis.ConnectionPool.from_url(
            url,
            socket_connect_timeout=CONNECT_LIMIT_S,
            socket_timeout=ANSWER_SPARE_S,  # redis-py 6 has no limit of its own
            **secret,
        )
        self._hang_up = weakref.finalize(self, self._pool.disconnect)
        self._named = f"the rendezvous at {url}"
        self._orders = Orders(job=job, attempt=attempt)
        self._tokens = (f"{uuid.uuid4().hex}-{number}" for number in itertools.count())
        self._born = bytes(self._ask([self._orders.born(next(self._tokens))], timeout=timeout)[0])
        _open.add(self)

    # ------------------------------------------------------------ torch's interface

    def set(self, key: str, value: str | bytes) -> None:
        self.multi_set([key], [value])

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        self._script("SET", keys, *values)

    def get(self, key: str) -> bytes:
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        if not (family := family_of(keys)):
            return self._each(keys, self.timeout)
        want, table = self._orders.whole(family, len(keys))
        [told] = self._waited([want], [table], self.timeout, of=keys)
        return list(pieces(told))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self._each(keys, self.timeout if timeout is None else timeout)

    def check(self, keys: Sequence[str]) -> bool:
        return not self._script("CHECK", keys)

    def add(self, key: str, amount: int) -> int:
        try:
            return int(self._script("ADD", [key], next(self._tokens), amount))
        except _NoNumber as error:
            raise DistStoreError(f"{key} holds no number, so nothing can be added") from error

    def append(self, key: str, value: str | bytes) -> None:
        self._script("APPEND", [key], next(self._tokens), value)

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        return bytes(self._script("COMPARE_SET", [key], expected, desired))

    def delete_key(self, key: str) -> bool:
        return bool(self._script("DELETE", [key], next(self._tokens)))

    def num_keys(self) -> int:
        return len(self._script("KEYS", []))

    def list_keys(self) -> list[str]:
        return [self._orders.short(key) for key in self._script("KEYS", [])]

    def has_extended_api(self) -> bool:
        return True

    def clone(self) -> "RedisStore":
        return self  # threads do not wait for each other here

    # ------------------------------------------------------------ its end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End its connections. What it wrote stays; no group may need it any more."""
        _open.discard(self)
        self._hang_up()

    # ------------------------------------------------------------ how it is asked

    def _each(self, keys: Sequence[str], timeout: timedelta) -> list[bytes]:
        """The values of all, once they are there: asked for at once, answered one by one."""
        return self._waited([self._orders.script("CHECK", [])], keys, timeout, of=keys)

    def _waited(
        self, orders: Sequence[Command], waits: Sequence[str], timeout: timedelta, of: Sequence[str]
    ) -> list[bytes]:
        """What comes under `waits` after the orders; `of` are the keys that somebody has to set."""
        try:
            return self._ask(orders, waits=waits, timeout=timeout)[len(orders) :]
        except _Late:
            missing = [self._orders.short(key) for key in self._script("CHECK", of)]
            raise DistStoreError(_told_late(missing, len(of), timeout)) from None

    def _script(self, name: str, keys: Sequence[str], *own: Any) -> Any:
        return self._ask([self._orders.script(name, keys, *own)], timeout=self.timeout)[0]

    def _ask(
        self, orders: Sequence[Command], *, waits: Sequence[str] = (), timeout: timedelta
    ) -> list[Any]:
        """Send all in one piece; the replies. What is lost with its connection is sent again."""
        began = time.monotonic()
        deadline = began + timeout.total_seconds()
        pauses = full_jitter(base_s=0.05, cap_s=1.0)
        told = broke = False
        while True:
            try:
                if broke and waits:
                    self._still_there(deadline)
                return self._once(orders, waits, deadline)
            except redis.exceptions.NoScriptError:
                self._once([("SCRIPT LOAD", text) for text in SCRIPTS.values()], (), deadline)
            except redis.AuthenticationError as error:
                raise DistError(f"{self._named} wants a password: {error}") from None
            except (redis.ConnectionError, redis.TimeoutError) as error:
                broke = True
                pause_s = next(pauses)
                if time.monotonic() + pause_s >= deadline:
                    why = f"{self._named} does not answer: {error} Is it running, and reachable?"
                    raise DistNetworkError(why) from error
                if not told and time.monotonic() - began >= SILENT_S:
                    told = True
                    limit_s = timeout.total_seconds()
                    _LOG.warning(
                        "%s does not answer: %s. It is tried again for %.0f s",
                        self._named,
                        str(error).rstrip("."),
                        limit_s,
                    )
                threading.Event().wait(pause_s)

    def _still_there(self, deadline: float) -> None:
        """Raises `DistStoreError` where what ranks had told each other is lost: who waited when its
        connection broke would wait for ever.
        """
        if self._once([self._orders.known()], (), deadline) != [self._born]:
            raise DistStoreError(f"{self._named} has begun anew: what ranks had told is lost")

    def _once(self, orders: Sequence[Command], waits: Sequence[str], deadline: float) -> list[Any]:
        left_s = max(0.001, deadline - time.monotonic())
        connection: Any = self._pool.get_connection()
        answered = False
        try:
            until = [self._orders.wait(key, left_s) for key in waits]
            connection.send_packed_command(connection.pack_commands([*orders, *until]))
            at_once_s = min(left_s, ANSWERS_IN_S)
            replies = [self._reply(connection, at_once_s) for _ in orders]
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
            return connection.read_response(timeout=left_s + ANSWER_SPARE_S, disable_decoding=True)
        except redis.exceptions.NoScriptError:
            raise
        except redis.ResponseError as error:
            word, _, newest = str(error).partition(" ")
            if word == "NONUMBER":
                raise _NoNumber from error
            if word != "OVER":
                raise DistError(f"{self._named} refuses: {error}") from None
            why = f"attempt {self._orders.attempt} is over: attempt {newest} has begun"
            raise DistStoreError(f"{why}; nothing is written") from None


def _told_late(missing: Sequence[str], asked: int, timeout: timedelta) -> str:
    names = ", ".join(missing[:NAMED]) + (", …" if len(missing) > NAMED else "")
    what = f"{len(missing)} of {asked} keys were set by no rank: {names}"
    return f"wait timeout after {timeout.total_seconds():g} s: {what}"


def pieces(told: bytes) -> Iterator[bytes]:
    """The values of a family that was told in one piece."""
    at = 0
    while at < len(told):
        (length,) = struct.unpack_from(">I", told, at)
        yield told[at + 4 : at + 4 + length]
        at += 4 + length
