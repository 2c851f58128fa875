"""Real stores behind a network for tests: skips where they were not made, or fails where they are
required. What a program needs to use them is in the environment meanwhile.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

import pytest

from holdfast.lab.kubernetes.build import NotHere
from holdfast.lab.stores.hdfs import Hdfs, running_hdfs
from holdfast.lab.stores.s3 import S3, running_s3

T = TypeVar("T", Hdfs, S3)


@contextmanager
def hdfs_server() -> Iterator[Hdfs]:
    with _or_skip(running_hdfs()) as server:
        yield server


@contextmanager
def s3_server(*, room_mb: int = 0) -> Iterator[S3]:
    pytest.importorskip("boto3")
    with _or_skip(running_s3(room_mb=room_mb)) as server:
        yield server


@contextmanager
def _or_skip(running: AbstractContextManager[T]) -> Iterator[T]:
    try:
        server = running.__enter__()
    except NotHere as missing:
        if os.environ.get("HOLDFAST_TEST_STORES") == "required":
            pytest.fail(f"HOLDFAST_TEST_STORES=required: {missing}", pytrace=False)
        pytest.skip(str(missing))
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in server.environment.items():
                patch.setenv(name, value)
            yield server
    finally:
        running.__exit__(None, None, None)
