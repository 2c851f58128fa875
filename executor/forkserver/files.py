"""Whether what was imported still is what lies on the disk.

Called by `server`. What a later import would read is looked up then, and not noted here.
"""

import os
import site
import sys

Seen = tuple[int, int, int]


class Files:
    """Every file that this process has loaded, and the folders where packages are installed."""

    def __init__(self) -> None:
        modules = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        folders = [*site.getsitepackages(), site.getusersitepackages()]
        names = {name for name in (*modules, *_mapped(), *folders) if name}
        self._seen = {name: _look(name) for name in names}

    def changed(self) -> str:
        """One that is another one now, in a sentence; "" where none is."""
        differ = (name for name, seen in self._seen.items() if _look(name) != seen)
        return next((f"{name} has changed since it was imported" for name in differ), "")


def _look(name: str) -> Seen | None:
    """None where it is not there; of a folder, what changes with its entries."""
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _mapped() -> set[str]:
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        fields = (line.split(maxsplit=5) for line in maps)
        return {field[5].strip() for field in fields if len(field) == 6 and field[5][0] == "/"}
