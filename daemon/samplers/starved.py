"""Whose process the kernel killed for want of memory: a rank's, another's, or nobody can say.

Asked by the sampler of the kernel log, which reads lines of the whole machine: other nodes' and
other runs' processes are in them too. The kernel names processes and memory cgroups as its first
namespaces have them, so that they can be compared only from within these.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from holdfast.kit import procstat
from holdfast.protocol.kernellines import KILLED, OOM_KILL, OOM_KILL_OTHER, OOM_KILL_OWN

FIRST = {"pid": 0xEFFF_FFFC, "cgroup": 0xEFFF_FFFB}
"""Inodes of the first namespaces; the kernel's include/linux/proc_ns.h."""
_KILLED = re.compile(KILLED)
_CHOSEN = re.compile(
    r"oom-kill:constraint=.*\btask_memcg=(?P<memcg>[^,]*),.*\bpid=(?P<pid>\d{1,10})"
)
"""The line before that: oom_kill.c, dump_oom_victim."""
_OWN_LINE = re.compile(r"^\d+:(|[^:]*\bmemory\b[^:]*):(?P<path>.*)$", re.MULTILINE)
"""Of /proc/PID/cgroup: of version 2, and the memory controller's of version 1."""


class Whose:
    """Remembers the ranks' processes and cgroups, for a process that was killed has none."""

    def __init__(self, ranks: Callable[[], Iterable[int]], proc: Path = Path("/proc")) -> None:
        self._ranks, self._proc = ranks, proc
        self._memcgs: dict[int, str] = {}
        self._chosen = ("", "")
        self._sees = {each: _is_first(proc, each) for each in FIRST}

    def look(self) -> None:
        """Before lines are read: who the ranks are now."""
        ranks = set(self._ranks())
        self._memcgs = {
            pid: self._memcgs[pid] if pid in self._memcgs else _memcg(self._proc, pid)
            for pid in ranks
        }

    def hear(self, line: str) -> None:
        """A line of the kernel's, for what it says before it kills."""
        if chosen := _CHOSEN.search(line):
            self._chosen = chosen["pid"], chosen["memcg"]

    def rule(self, line: str) -> str:
        """The rule of the line that tells of the kill."""
        killed = _KILLED.search(line)
        if killed is None:
            return OOM_KILL
        memcg = self._chosen[1] if self._chosen[0] == killed["pid"] else ""
        if self._sees["pid"] and int(killed["pid"]) in self._memcgs:
            return OOM_KILL_OWN
        known = set(self._memcgs.values())
        if not self._sees["cgroup"] or not memcg or not all(known):
            return OOM_KILL
        if memcg not in known:
            return OOM_KILL_OTHER
        return OOM_KILL_OWN if memcg != "/" else OOM_KILL


def _is_first(proc: Path, kind: str) -> bool:
    try:
        return (proc / "self" / "ns" / kind).stat().st_ino == FIRST[kind]
    except OSError:
        return False


def _memcg(proc: Path, pid: int) -> str:
    """ "" where it cannot be known."""
    try:
        text = (proc / str(pid) / "cgroup").read_text(errors="replace")
    except procstat.GONE:
        return ""
    found = _OWN_LINE.search(text)
    return found["path"] if found else ""
