"""A rank that takes too much memory dies of it, its executor does not, and both say so."""

import os
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from waiting import eventually

from holdfast.executor.adapters.children import Exit
from holdfast.executor.adapters.reentry import Reentry
from holdfast.executor.ranks import Ranks
from holdfast.executor.spawner import Spawner
from holdfast.kit.cgroup import RECENT_S, Kills, Memory, memory
from holdfast.protocol.paths import NodePaths
from holdfast.protocol.rankenv import NodeFacts

V1 = Path("/sys/fs/cgroup/memory")
LIMIT_BYTES = 400 << 20
BURSTABLE = "999"
"""What a kubelet gives all processes of a pod that asks for little."""

# ---------------------------------------------------------------- where the counts are


def mounted(kind: str, root: str, at: Path, options: str) -> str:
    return f"35 31 0:32 {root} {at} rw,relatime - {kind} cgroup {options}\n"


@pytest.mark.parametrize(
    ("place", "root", "folder"),
    [
        pytest.param("/pod/c", "/", "pod/c", id="the-hosts-hierarchy"),
        pytest.param("/kubepods/pod/c", "/kubepods/pod/c", "", id="a-containers-own-mount"),
        pytest.param("/host/pod/c/below", "/host/pod/c", "below", id="below-a-containers-own"),
        pytest.param("/host/pod/c", "/", "", id="a-path-of-the-host"),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_the_counts_are_found_in_a_container_as_on_its_host(
    tmp_path: Path, version: int, place: str, root: str, folder: str
) -> None:
    at, cgroups, mounts = tmp_path / "cgroup", tmp_path / "of-self", tmp_path / "mounts"
    (at / folder).mkdir(parents=True)
    if version == 1:
        cgroups.write_text(f"5:devices:/\n4:cpu,memory:{place}\n0::/elsewhere\n")
        mounts.write_text(mounted("cgroup", root, at, "rw,cpu,memory"))
        (at / folder / "memory.oom_control").write_text("under_oom 0\noom_kill 3\n")
        (at / folder / "memory.limit_in_bytes").write_text("4096\n")
    else:
        cgroups.write_text(f"0::{place}\n")
        mounts.write_text(mounted("cgroup2", root, at, "rw"))
        (at / folder / "memory.events").write_text("low 0\noom 9\noom_kill 3\n")
        (at / folder / "memory.max").write_text("4096\n")
    assert memory(cgroups, mounts) == Memory(limit_bytes=4096, kills=3)


@pytest.mark.parametrize("unlimited", ["max", "9223372036854771712"])
def test_no_limit_is_none(tmp_path: Path, unlimited: str) -> None:
    (tmp_path / "of-self").write_text("4:memory:/\n")
    (tmp_path / "mounts").write_text(mounted("cgroup", "/", tmp_path, "rw,memory"))
    (tmp_path / "memory.oom_control").write_text("oom_kill 0\n")
    (tmp_path / "memory.limit_in_bytes").write_text(unlimited)
    assert memory(tmp_path / "of-self", tmp_path / "mounts") == Memory(limit_bytes=0, kills=0)


def test_where_nothing_is_told_nothing_is_known(tmp_path: Path) -> None:
    assert memory(tmp_path / "none", tmp_path / "none") == Memory()


def test_only_who_dies_just_after_a_kill_for_memory_died_of_it() -> None:
    """The kernel tells how many it killed, not whom: a worker on Monday explains no rank's death
    on Thursday."""
    kills, now = 2, 0.0
    seen = Kills(lambda: Memory(limit_bytes=4096, kills=kills), lambda: now)
    assert seen.look() is None, "killed before anything began here"
    kills, now = 3, 5.0
    assert seen.look() == Memory(limit_bytes=4096, kills=3)
    now = 5.0 + RECENT_S
    assert seen.look() is not None
    now += 1.0
    assert seen.look() is None
    kills = 4
    assert seen.look() is not None, "another one"


@pytest.mark.parametrize(
    ("end", "of_memory"),
    [
        pytest.param(Exit(code=None, signal=9), True, id="a rank"),
        pytest.param(Exit(code=137, signal=None), True, id="what its shell ran"),
        pytest.param(Exit(code=1, signal=None), False, id="another end"),
        pytest.param(Exit(code=None, signal=15), False, id="another signal"),
    ],
)
def test_a_rank_that_was_killed_is_looked_up(tmp_path: Path, end: Exit, of_memory: bool) -> None:
    told: list[Any] = []
    paths = NodePaths(scratch=tmp_path, memory=tmp_path)
    nobody = Reentry.__new__(Reentry)
    ranks = Ranks(Spawner.__new__(Spawner), nobody, NodeFacts(name="n0", paths=paths), told.append)
    ranks._kills = Kills(iter([Memory(), Memory(limit_bytes=4096, kills=1)]).__next__)
    ranks._ended("job", 1, 0, tmp_path, 7, end)
    (status,) = (event.status for event in told)
    assert status.out_of_memory is of_memory
    assert status.memory_limit_bytes == (4096 if of_memory else 0)


# ---------------------------------------------------------------- the kernel's choice


@pytest.fixture
def group() -> Iterator[Path]:
    """A memory cgroup with a limit, empty at the end."""
    path = V1 / f"tests-of-memory-{token_hex(4)}"
    try:
        path.mkdir()
    except OSError:
        pytest.skip("no memory cgroup of version 1 can be made here")
    try:
        (path / "memory.limit_in_bytes").write_text(str(LIMIT_BYTES))
        yield path
    finally:
        eventually(lambda: not (path / "cgroup.procs").read_text(), "nothing is left in it")
        eventually(lambda: gone(path), "it can be removed")


def gone(path: Path) -> bool:
    try:
        path.rmdir()
    except OSError:  # the last of them is dying
        return False
    return True


@pytest.mark.asyncio(loop_scope="module")
async def test_the_kernel_kills_the_rank_that_takes_too_much_and_not_its_executor(
    group: Path, own_node: Any
) -> None:
    confine(own_node, group)
    greedy = """
    import os, time
    if os.environ["RANK"] == "1":
        taken = [bytearray(16 << 20) for _ in range(100)]
    time.sleep(600)
    """
    await own_node.launch(own_node.python(greedy, ranks_per_node=2), ranks=2)
    seen = await own_node.driver.eventually(
        lambda o: o.epoch == own_node.epoch and any(r.state == "exited" for r in o.ranks)
    )
    (dead,) = (rank for rank in seen.ranks if rank.state == "exited")
    assert (dead.rank, dead.signal, dead.out_of_memory) == (1, 9, True)
    assert dead.memory_limit_bytes == LIMIT_BYTES
    assert os.path.exists(f"/proc/{own_node.executor}")
    lives = {hello.incarnation for hello in own_node.driver.hellos}
    assert len(lives) == 1, "the executor had no second life"
    await own_node.end()


def confine(node: Any, group: Path) -> None:
    """As a kubelet does with a pod: all processes have one score, one group."""
    for pid in (node.host.pid, node.executor, *node.below()):
        (group / "cgroup.procs").write_text(str(pid))
        Path(f"/proc/{pid}/oom_score_adj").write_text(BURSTABLE)
