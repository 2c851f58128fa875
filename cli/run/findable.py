"""Whether Python finds a module at all, asked before a run is started for it.

Called by `options.command_of`, which learns it from a child of the interpreter that the ranks will
have: there the search path is that of `-m`. Must not run what it looks for.
"""

import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec

NOT_FOUND = 3
"""Exit code of the child where the module cannot be run; its last line says why."""
LOOK_S = 30.0


def why_not(name: str) -> str:
    """Why `-m name` cannot be run from here, in a sentence; "" where it can, or nobody knows."""
    try:
        child = subprocess.run(
            [sys.executable, "-m", "holdfast.cli.run.findable", name],
            capture_output=True,
            text=True,
            timeout=LOOK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""  # not known: the run itself will show it
    return child.stdout.splitlines()[-1] if child.returncode == NOT_FOUND else ""


def missing(name: str) -> str:
    """The sentence, here. Nothing is imported unless a part of a package seems not to be there."""
    search: Sequence[str] | None = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        full = ".".join(parts[:count])
        found = _spec(full, search)
        if found is None:
            return "" if count > 1 and _after_all(full) else f"there is no module {full!r}."
        search = found.submodule_search_locations
        if search is None and count < len(parts):
            return f"{full!r} is not a package: there is no {name!r}."
    if search is not None and not (_spec(f"{name}.__main__", search) or _after_all(name)):
        return f"{name!r} is a package without a __main__: it cannot be run."
    return ""


def _spec(name: str, search: Sequence[str] | None) -> ModuleSpec | None:
    """What the finders know of it; `search`: the folders of the package around it."""
    found = (finder.find_spec(name, search) for finder in sys.meta_path)
    return next((spec for spec in found if spec is not None), None)


def _after_all(name: str) -> bool:
    """Whether it may be there in spite of it: a package can change its own search path.

    Imports the packages around it, which is slow, and right before a refusal only.
    """
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{name}.__main__")
    except (Exception, SystemExit):  # noqa: BLE001 - whatever the user's package raises, the run will show it
        return True
    return spec is not None


if __name__ == "__main__":
    if said := missing(sys.argv[1]):
        sys.stdout.write(f"\n{said}\n")
        sys.exit(NOT_FOUND)
