"""The small tools."""

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kit.backoff import full_jitter
from holdfast.kit.clock import SystemClock
from holdfast.kit.files import listens_at, write_atomic
from holdfast.kit.ids import new_id


@given(seed=st.integers(0, 1000))
def test_waits_stay_below_a_doubling_ceiling_and_the_cap(seed: int) -> None:
    waits = list(islice(full_jitter(base_s=0.1, cap_s=1.0, seed=seed), 10))
    ceilings = [min(1.0, 0.1 * 2**k) for k in range(10)]
    assert all(0 <= wait <= ceiling for wait, ceiling in zip(waits, ceilings, strict=True))
    assert len(set(waits)) > 1


SUSPENDED = """
from holdfast.kit.clock import SystemClock, WorldClock
print(WorldClock().monotonic_s() - SystemClock().monotonic_s())
"""


def test_an_atomic_write_replaces_the_old_content_whole(tmp_path: Path) -> None:
    target = tmp_path / "state"
    write_atomic(target, b"old")
    write_atomic(target, b"new", mode=0o600, durable=True)
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_threads_that_write_the_same_file_at_once_do_not_take_it_from_each_other(
    tmp_path: Path,
) -> None:
    """As the agent's two do with a slot's checksum."""
    target = tmp_path / "sum"
    with ThreadPoolExecutor(4) as threads:
        writes = [threads.submit(write_atomic, target, b"same") for _ in range(500)]
    assert [each.exception() for each in writes] == [None] * 500
    assert [path.name for path in tmp_path.iterdir()] == ["sum"]


def test_a_failed_atomic_write_leaves_the_old_content_and_no_litter(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    (target / "inside").touch()
    with pytest.raises(OSError):  # noqa: PT011 (which errno depends on the file system)
        write_atomic(target, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_socket_is_there_before_somebody_listens_at_it(tmp_path: Path) -> None:
    at = tmp_path / "socket"
    assert not listens_at(at)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(at))
        assert at.exists()
        assert not listens_at(at)
        server.listen()
        assert listens_at(at)
    assert not listens_at(at)


def test_monotonic_time_does_not_go_back() -> None:
    clock = SystemClock()
    first = clock.monotonic_s()
    assert clock.monotonic_s() >= first
    assert clock.wall().tzinfo is not None


def test_time_of_the_world_passes_while_the_machine_is_suspended() -> None:
    """In a time namespace whose machine was suspended for 5,000 s since it was started."""
    said = subprocess.run(
        ["unshare", "--time", "--boottime", "5000", "--fork", sys.executable, "-c", SUSPENDED],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert float(said.stdout) == pytest.approx(5_000, abs=1)


def test_ids_differ_and_carry_their_prefix() -> None:
    assert new_id("run") != new_id("run")
    assert new_id("run").startswith("run-")
