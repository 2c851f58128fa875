"""A Redis of the tests' own; skips where there is none, or fails where it is required."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.lab import redis


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
