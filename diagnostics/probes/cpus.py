"""What share of its processors may this node use: all, or what a cgroup leaves it.

A quota is no matter of how busy a machine is: it is read where it is set, in the cgroup of this
process and those above it. How fast they are is asked by `compute`.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.diagnostics.probes import Measured
from holdfast.protocol.messages import DiagnosticOrder

CGROUPS = Path("/sys/fs/cgroup")
MINE = Path("/proc/self/cgroup")
SPIN_S = 0.1
"""One period of a quota, as the kernel has it by default."""


def run(order: DiagnosticOrder, node: str) -> Measured:
    """Percent of the processors here, so that nodes of other sizes are alike; with what a loop of
    `SPIN_S` got of one."""
    there = float(len(os.sched_getaffinity(0)))
    left = min((quota for group in groups(MINE, CGROUPS) for quota in quotas(group)), default=there)
    wall_s, cpu_s = _spin()
    usable = min(there, left)
    detail = f"{usable:g} of {there:g}; a loop of {wall_s:.2f} s got {cpu_s:.2f} s of one"
    return Measured(ok=True, value=100 * usable / there, detail=detail)


def groups(mine: Path, root: Path) -> Iterator[Path]:
    """The cpu cgroup that `mine` names, and those above it, of either version."""
    for line in mine.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / "cpu" if controllers else root
        group = base / path.lstrip("/")
        yield from (each for each in (group, *group.parents) if each.is_relative_to(base))


def quotas(group: Path) -> Iterator[float]:
    """Processors that the group leaves, where it has a quota."""
    if (v2 := group / "cpu.max").exists():
        quota, period = v2.read_text().split()
    elif (v1 := group / "cpu.cfs_quota_us").exists():
        quota, period = v1.read_text().strip(), (group / "cpu.cfs_period_us").read_text()
    else:
        return
    if quota not in ("max", "-1"):
        yield int(quota) / int(period)


def _spin() -> tuple[float, float]:
    begin_s, cpu_s = time.perf_counter(), time.thread_time()
    while time.perf_counter() - begin_s < SPIN_S:
        pass
    return time.perf_counter() - begin_s, time.thread_time() - cpu_s
