"""How often the kernel has killed a process of this node for want of memory, where that shows."""

from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def oom_kills() -> int:
    """Kills so far in the memory cgroup of this process; 0 where it cannot be seen."""
    for path in _files():
        try:
            words = path.read_text(encoding="ascii").split()
        except OSError:
            continue
        if "oom_kill" in words:
            return int(words[words.index("oom_kill") + 1])
    return 0


def _files() -> list[Path]:
    """The counter's file in version 2 (`memory.events`) and 1 (`memory.oom_control`)."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    files: list[Path] = []
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if not controllers:
            files.append(ROOT / place.lstrip("/") / "memory.events")
        elif "memory" in controllers.split(","):
            files.append(ROOT / "memory" / place.lstrip("/") / "memory.oom_control")
    return files
