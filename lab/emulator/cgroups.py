"""An equal share of the processors for each node, where a cpu cgroup can be had; and where memory
can be limited.

Used by the emulator's factory and the nodes' runtimes. Without a cpu cgroup the kernel shares by
process: a node with more ranks gets more. What could not be had is said, never hidden.
"""

import contextlib
from pathlib import Path

WEIGHT_FILES = {"v1": "cpu.shares", "v2": "cpu.weight"}
PERIOD_US = 20_000
"""In which a node that is made slow gets its share: a few in a step."""
WEIGHT_OF_RUN = {"v1": 16_384, "v2": 1_600}
"""Of the run against what else runs here, 16 times a process's own: it has many processes, and as
one group of the default weight it would get no more than any single one of its neighbours."""


def parent_for(run_id: str) -> tuple[Path | None, str]:
    """A new cgroup whose children share the processors equally, or None and the reason."""
    made, version, why = _made(run_id, "cpu")
    if made is None:
        return None, why
    (made / WEIGHT_FILES[version]).write_text(str(WEIGHT_OF_RUN[version]))
    return made, f"cpu cgroups ({version})"


def memory_parent(run_id: str) -> tuple[Path | None, str, str]:
    """A cgroup below which memory can be limited, its version, and why there is none."""
    return _made(run_id, "memory")


def _made(run_id: str, controller: str) -> tuple[Path | None, str, str]:
    """The run's cgroup with this controller, the version of its kind, and why there is none."""
    reasons = []
    for version, base in (("v1", _v1_base(controller)), ("v2", _v2_base())):
        if base is None:
            reasons.append(f"{version}: not mounted")
            continue
        made = base / f"holdfast-{run_id}"
        try:
            made.mkdir(exist_ok=True)
            if version == "v2":
                (made / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError as error:
            reasons.append(f"{version}: {error.strerror}")
            with contextlib.suppress(OSError):
                made.rmdir()
            continue
        return made, version, ""
    return None, "", f"no {controller} cgroups (" + "; ".join(reasons) + ")"


def join(parent: Path, name: str, pid: int) -> Path:
    """Put `pid`, and all that it will fork, into the node's cgroup; where it is."""
    group = parent / name
    group.mkdir(exist_ok=True)
    (group / "cgroup.procs").write_text(str(pid))
    return group


def of_run(run_id: str) -> list[Path]:
    """The run's cgroups, one for each controller that it uses."""
    return [group for group in all_runs() if group.name == f"holdfast-{run_id}"]


def remove(parent: Path) -> None:
    """Remove the cgroup of a run, and those in it that are empty."""
    for group in [*parent.glob("*/"), parent]:
        with contextlib.suppress(OSError):  # still has a dying process: the next sweep has it
            group.rmdir()


def all_runs() -> list[Path]:
    """Cgroups of all runs that are still there, for sweeps and for counting leftovers."""
    bases = {base for base in (_v1_base("cpu"), _v1_base("memory"), _v2_base()) if base}
    return [found for base in bases for found in base.glob("holdfast-*")]


def _v1_base(controller: str) -> Path | None:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        if kind == "cgroup" and controller in options.replace(" ", ",").split(","):
            return Path(fields.split()[4])
    return None


def _v2_base() -> Path | None:
    """The cgroup above our own: one that has processes itself may have no children."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    mine = [line.removeprefix("0::") for line in lines if line.startswith("0::")]
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.startswith("cgroup2 ") and mine:
            return (Path(fields.split()[4]) / mine[0].strip("/")).parent
    return None


def slow(run_id: str, node: str, processors: float) -> None:
    """From now on the node has so many processors at most. Raises `OSError`, `LookupError` where
    the run has no cpu cgroup."""
    quota_us = max(1_000, round(processors * PERIOD_US))
    for group in (parent / node for parent in of_run(run_id)):
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
            return
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
            return
    raise LookupError(f"the node {node} has no cpu cgroup")
