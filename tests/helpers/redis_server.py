"""A Redis of the tests' own; skips where there is none, or fails where it is required."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import pytest

from holdfast.lab import redis


@contextmanager
def stores_on(
    server: redis.Redis, job: str, *, attempt: int = 1, timeout: timedelta = timedelta(seconds=20)
) -> Iterator[Callable[[], Any]]:
    """Makes stores of one job, as each of its ranks has one."""
    from holdfast.rendezvous.redis_store import RedisStore

    with ExitStack() as opened:

        def open_one() -> RedisStore:
            store = RedisStore(server.url, job=job, attempt=attempt, timeout=timeout)
            opened.callback(store.close)
            return store

        yield open_one


@contextmanager
def redis_server() -> Iterator[redis.Redis]:
    """A started server."""
    pytest.importorskip("redis")
    try:
        with redis.running_redis() as server:
            yield server
    except redis.NotInstalled as missing:
        if os.environ.get("HOLDFAST_TEST_REDIS") == "required":
            pytest.fail(f"HOLDFAST_TEST_REDIS=required: {missing}", pytrace=False)
        pytest.skip(str(missing))
