"""Whose process the kernel killed: told by its own numbers, where these can be compared."""

from pathlib import Path

import pytest

from holdfast.daemon.samplers import starved
from holdfast.daemon.samplers.starved import Whose
from holdfast.protocol.kernellines import OOM_KILL, OOM_KILL_OTHER, OOM_KILL_OWN, rule_of

CHOSEN = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg={memcg},task_memcg={memcg},task=python,pid={pid},uid=0"
)
KILLED = "Memory cgroup out of memory: Killed process {pid} (python) total-vm:94371kB, anon-rss:8kB"
RANK, MEMCG = 4211, "/kubepods/pod7/executor"


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A rank's cgroup; this process is in the first namespaces, or in those that a test takes."""
    (tmp_path / str(RANK)).mkdir()
    (tmp_path / str(RANK) / "cgroup").write_text(f"0::{MEMCG}\n")
    monkeypatch.setattr(starved, "_is_first", lambda _proc, kind: kind in ("pid", "cgroup"))
    return tmp_path


def told(whose: Whose, pid: int, memcg: str) -> str:
    whose.look()
    whose.hear(CHOSEN.format(pid=pid, memcg=memcg))
    line = KILLED.format(pid=pid)
    assert rule_of(line) == OOM_KILL
    return whose.rule(line)


@pytest.mark.parametrize(
    ("pid", "memcg", "rule"),
    [
        (RANK, MEMCG, OOM_KILL_OWN),
        (RANK + 1, MEMCG, OOM_KILL_OWN),  # a child of a rank
        (RANK + 1, "/kubepods/pod8/executor", OOM_KILL_OTHER),
    ],
)
def test_a_process_is_known_by_its_number_or_its_cgroup(
    proc: Path, pid: int, memcg: str, rule: str
) -> None:
    assert told(Whose(lambda: [RANK], proc), pid, memcg) == rule


def test_a_rank_is_known_though_it_is_gone_as_the_line_is_read(proc: Path) -> None:
    whose = Whose(lambda: [RANK], proc)
    whose.look()
    (proc / str(RANK) / "cgroup").unlink()
    assert told(whose, RANK + 1, MEMCG) == OOM_KILL_OWN


def test_version_1_names_the_memory_controllers_cgroup(proc: Path) -> None:
    text = f"11:cpu,cpuacct:/other\n9:memory:{MEMCG}\n1:name=systemd:/\n"
    (proc / str(RANK) / "cgroup").write_text(text)
    assert told(Whose(lambda: [RANK], proc), 1, MEMCG) == OOM_KILL_OWN
    assert told(Whose(lambda: [RANK], proc), 1, "/other") == OOM_KILL_OTHER


def test_where_numbers_cannot_be_compared_nobody_is_named(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starved, "_is_first", lambda _proc, _kind: False)
    assert told(Whose(lambda: [RANK], proc), RANK, MEMCG) == OOM_KILL


def test_without_the_line_before_it_nobody_is_named(proc: Path) -> None:
    whose = Whose(lambda: [RANK], proc)
    whose.look()
    assert whose.rule(KILLED.format(pid=RANK + 1)) == OOM_KILL
