"""A real keeper with small processes instead of executors and daemons."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from running_keeper import RunningKeeper, gone

from holdfast.keeper import state as states


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[RunningKeeper]:
    """A keeper of two nodes; not started."""
    running = RunningKeeper(tmp_path / "run", "--nodes", "2", "--driver", "http://127.0.0.1:9")
    try:
        yield running
    finally:
        running.end()
    assert states.load(running.root) is None or not running.left()


@pytest.fixture
def is_gone() -> Callable[[int], bool]:
    return gone


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)
