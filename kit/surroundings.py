"""What a process has from whoever started it and cannot give itself: what another one must have
alike to stand in for it. Linux.

Used by the keeper and by the fork server. Must not show values of the environment: they may be
secret.
"""

import os
import sys
from collections.abc import Iterable, Mapping

SET_ANEW = 1 << 1 | 1 << 14 | 1 << 16
"""Signals 2, 15 and 17: a node's host has them set to their defaults."""
STATUS = (
    *("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"),
    *("NoNewPrivs", "Seccomp", "Cpus_allowed_list", "Mems_allowed_list"),
)
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")


def surroundings() -> dict[str, str]:
    """Of this process: values by what they are, in words."""
    status = dict(line.split(":", 1) for line in _lines("status") if ":" in line)
    found = {f"{name} (/proc/self/status)": status.get(name, "").strip() for name in STATUS}
    found["ignored signals"] = f"{int(status['SigIgn'], 16) & ~SET_ANEW:x}"
    found["blocked signals"] = status["SigBlk"].strip()
    found |= {f"{name} namespace": _link(f"ns/{name}") for name in NAMESPACES}
    found |= {
        f"limit: {line[:26].strip()}": " ".join(line[26:].split()) for line in _lines("limits")[1:]
    }
    root = os.stat("/")
    return found | {
        "control group": " ".join(_lines("cgroup")),
        "out-of-memory score": "".join(_lines("oom_score_adj")),
        "personality": "".join(_lines("personality")),
        "niceness": str(os.nice(0)),
        "scheduling policy": str(os.sched_getscheduler(0)),
        "root folder": f"{root.st_dev}:{root.st_ino}",
        "interpreter": os.path.abspath(sys.executable),
        "environment of Python": sys.prefix,
        "version of Python": sys.version,
    }


def unlike(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """The first of them that differs, in words; "" where none does."""
    for what in sorted({*ours, *theirs}):
        if ours.get(what) != theirs.get(what):
            return f"{what}: {ours.get(what, 'none')} there, {theirs.get(what, 'none')} here"
    return ""


def unlike_variable(
    ours: Mapping[str, str], theirs: Mapping[str, str], names: Iterable[str]
) -> str:
    """The first of these variables that differs, without its value; "" where none does."""
    differ = (name for name in sorted(names) if ours.get(name) != theirs.get(name))
    return next((f"the variable {name} has another value" for name in differ), "")


def _lines(name: str) -> list[str]:
    """Of a file about this process; a kernel that has none says nothing."""
    try:
        with open(f"/proc/self/{name}", encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _link(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/{name}")
    except OSError:
        return ""
