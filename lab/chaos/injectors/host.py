"""Faults 21, 26, 27 and 28: a node has no memory, disk or processor left for what runs on it."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from holdfast.keeper import processes
from holdfast.keeper.processes import RUN_MARK
from holdfast.keeper.state import NodeRecord
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector, user_bug
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator import cgroups
from holdfast.lab.emulator.inside import NotPossible, path_in

LIMIT_MIB = 2_048
"""More than the ranks of a node need when they start again."""
FULL = 0.97
BURN = """
import sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pass
"""


def out_of_memory(lab: Lab, job: str, rng: Random) -> Done:
    """The node of a rank gets a limit, and that rank hoards memory until the kernel kills it."""
    pids = target.rank_pids(lab, job)
    victim = rng.choice(sorted(pids))
    node = target.node_of(lab, pids[victim])
    _limit(lab, node)
    at_s = time.time()
    (user_bug.folder_of(lab, job) / f"hoard.rank{victim}").touch()
    said = f"rank {victim} on {node.name} hoards memory, of which that has {LIMIT_MIB} MiB"
    return Done(said=said, node=node.name, rank=victim, at_s=at_s)


def _limit(lab: Lab, node: NodeRecord) -> None:
    """All that runs on the node, and all that it will fork. Raises `NotPossible`."""
    parent, version, why = cgroups.memory_parent(lab.run_id)
    if parent is None:
        raise NotPossible(why)
    group = cgroups.join(parent, node.name, node.host_pid)
    for pid in processes.marked(lab.run_id, HOLDFAST_NODE=node.name):
        with contextlib.suppress(ProcessLookupError):  # it has ended since
            cgroups.join(parent, node.name, pid)
    file = "memory.limit_in_bytes" if version == "v1" else "memory.max"
    (group / file).write_text(str(LIMIT_MIB << 20))


def disk_nearly_full(lab: Lab, job: str, rng: Random) -> Done:
    """Somebody else fills the disk of a node of the job, but for a little."""
    node, at_s = rng.choice(target.hosts_of(lab, job)), time.time()
    scratch = path_in(node, f"{node.folder}/scratch")
    _fill(scratch)
    return Done(said=f"the disk of {node.name} is {FULL:.0%} full", node=node.name, at_s=at_s)


def shared_memory_full(lab: Lab, job: str, rng: Random) -> Done:
    """Somebody else fills /dev/shm of a node of the job to its last byte but one in thirty."""
    node, at_s = rng.choice(target.hosts_of(lab, job)), time.time()
    _fill(path_in(node, "/dev/shm"))
    return Done(said=f"/dev/shm of {node.name} is {FULL:.0%} full", node=node.name, at_s=at_s)


def _fill(folder: Path) -> None:
    room = os.statvfs(folder)
    size = int((room.f_bavail - room.f_blocks * (1 - FULL)) * room.f_frsize)
    with (folder / "of-somebody-else").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, size))


def neighbours(seconds: float) -> Injector:
    """For so long a loop on each core of this machine: all nodes share them."""

    def do(lab: Lab, _job: str, _rng: Random) -> Done:
        at_s, cores = time.time(), os.cpu_count() or 1
        command = [sys.executable, "-c", BURN, f"{seconds:g}"]
        mark = os.environ | {RUN_MARK: lab.run_id}  # so that it ends with the laboratory
        for loop in [subprocess.Popen(command, env=mark) for _ in range(cores)]:
            loop.wait()
        return Done(said=f"{cores} loops compute beside the ranks for {seconds:g} s", at_s=at_s)

    return do
