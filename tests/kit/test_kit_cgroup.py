"""What may still be taken before the kernel kills: of the host's memory, and of the cgroup's."""

from pathlib import Path

import pytest

from holdfast.kit.cgroup import free_bytes

HOST_KB = 1_000
V1 = {"current": "memory.usage_in_bytes", "max": "memory.limit_in_bytes"}
V2 = {"current": "memory.current", "max": "memory.max"}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("limit", "idle", "free"),
    [
        pytest.param(300_000, 50_000, 300_000 - 250_000 + 50_000, id="the cgroup has less"),
        pytest.param(9_000_000_000, 50_000, 1024 * HOST_KB, id="the host has less"),
        pytest.param(150_000, 50_000, 0, id="more is used than the limit, lowered since"),
        pytest.param(300_000, 260_000, 300_000, id="counts of different moments"),
    ],
)
def test_the_less_of_host_and_cgroup_is_free_with_files_that_are_not_used(
    tmp_path: Path, version: int, limit: int, idle: int, free: int
) -> None:
    names = V1 if version == 1 else V2
    (tmp_path / names["current"]).write_text("250000\n")
    (tmp_path / names["max"]).write_text(f"{limit}\n")
    (tmp_path / "memory.stat").write_text(f"inactive_file {idle}\ntotal_inactive_file {idle}\n")
    counts = "memory.oom_control" if version == 1 else "memory.events"
    (tmp_path / counts).write_text("oom_kill 0\n")
    (tmp_path / "self").write_text("4:memory:/\n" if version == 1 else "0::/\n")
    kind = "cgroup cgroup rw,memory" if version == 1 else "cgroup2 cgroup rw"
    (tmp_path / "mounts").write_text(f"1 2 0:3 / {tmp_path} rw - {kind}\n")
    (tmp_path / "meminfo").write_text(f"MemTotal: 2000 kB\nMemAvailable: {HOST_KB} kB\n")
    assert free_bytes(*(tmp_path / name for name in ("self", "mounts", "meminfo"))) == free


def test_where_nothing_is_told_nothing_is_known(tmp_path: Path) -> None:
    assert free_bytes(*[tmp_path / "none"] * 3) is None
