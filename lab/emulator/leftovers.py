"""What of a run is on this machine, found by looking at the machine and not by asking our code.

Used by the demo and the tests after the end: processes (by the mark in their environment), mounts,
links, shared memory and cgroups. Must not remove anything: the sweep of the next start does.
"""

from pathlib import Path

import msgspec

from holdfast.keeper import processes
from holdfast.keeper import state as states
from holdfast.keeper.memory import memory_root
from holdfast.lab.emulator import cgroups


class Leftovers(msgspec.Struct, frozen=True):
    """One list for each kind of thing; all empty when nothing is left."""

    processes: list[str]
    mounts: list[str]
    links: list[str]
    shared_memory: list[str]
    cgroups: list[str]

    @property
    def count(self) -> int:
        return sum(len(getattr(self, name)) for name in self.__struct_fields__)


def look(run_id: str, root: Path) -> Leftovers:
    """Everything that carries the run's mark, lies under its folder, or is of its kind."""
    pids = processes.all_pids()
    return Leftovers(
        processes=[f"{pid} {_command(pid)}" for pid in processes.marked(run_id)],
        mounts=sorted({mount for pid in pids for mount in _mounts(pid, root)}),
        links=_links(run_id, pids, root),
        shared_memory=[str(path) for path in [memory_root(run_id)] if path.exists()],
        cgroups=[str(path) for path in cgroups.of_run(run_id)],
    )


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return "(gone)"


def _mounts(pid: int, root: Path) -> list[str]:
    """Mounts below the run's folder that any process sees, whatever its mount namespace."""
    try:
        lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    except OSError:
        return []
    points = [line.split()[4] for line in lines]
    return [point for point in points if Path(point).is_relative_to(root)]


def _links(run_id: str, pids: list[int], root: Path) -> list[str]:
    """Interfaces of the run's switch, whoever keeps its namespace open, and any on this machine.

    Not those of another run: the kernel gives the number of a namespace that is gone to a new one.
    """
    state = states.load(root)
    network = state.switch_network if state else 0
    held = [pid for pid in pids if network and _network_of(pid) == network]
    keepers = [pid for pid in held if _run_of(pid) in (None, run_id)]
    here = [path.name for path in Path("/sys/class/net").glob("*") if _is_switch_end(path.name)]
    return here + next(filter(None, map(_interfaces, keepers)), [])


def _run_of(pid: int) -> str | None:
    return processes.environment_of(pid).get(processes.RUN_MARK)


def _network_of(pid: int) -> int:
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return 0


def _interfaces(pid: int) -> list[str]:
    """Those of its network; none where it has ended since."""
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    except OSError:
        return []
    return [line.partition(":")[0].strip() for line in lines]


def _is_switch_end(name: str) -> bool:
    return name == "switch" or (name[:1] == "s" and name[1:].isdigit())
