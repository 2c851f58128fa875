"""Imports modules into the launcher, but only what is installed: never the user's own.

The user's modules may run anything when imported, and a file next to the script may bear the name
of an installed package: the rank has to find the user's.
"""

import importlib
import importlib.util
import os
import site
import sys
import sysconfig
from pathlib import Path

import holdfast


class Importer:
    """Loads modules on a search path without the user's folders; `counts` says how it went."""

    def __init__(self) -> None:
        self._roots = installed_roots()
        self._allowed: dict[str, bool] = {}
        self._loaded = 0
        self._skipped = 0
        self.half = ""
        """A package that raised when half of it was there: who imports it again meets another
        error than the first, as torch raises that it cannot be initialised twice."""

    def counts(self) -> tuple[int, int]:
        """Modules imported and skipped so far."""
        return self._loaded, self._skipped

    def load(self, name: str) -> None:
        """Import `name` if it is installed; what cannot be imported is skipped and counted."""
        whole, sys.path = sys.path, [path for path in sys.path if path not in user_folders()]
        try:
            if name in sys.modules or self._may(name.partition(".")[0]):
                importlib.import_module(name)
                self._loaded += 1
            else:
                self._skipped += 1
        except (Exception, SystemExit):  # noqa: BLE001 - any module may fail in any way; the rank tells
            self._skipped += 1
            self._look_at_what_is_left(name.partition(".")[0])
        finally:
            sys.path = whole

    def _look_at_what_is_left(self, top: str) -> None:
        parts = any(each.startswith(f"{top}.") for each in sys.modules)
        if parts and top not in sys.modules:
            self.half = top

    def _may(self, top: str) -> bool:
        if top not in self._allowed:
            spec = importlib.util.find_spec(top)
            self._allowed[top] = spec is not None and self._installed(spec.origin, spec)
        return self._allowed[top]

    def _installed(self, origin: str | None, spec: object) -> bool:
        if origin in ("built-in", "frozen"):
            return True
        places = [origin] if origin else list(getattr(spec, "submodule_search_locations", []) or [])
        return bool(places) and all(
            any(Path(place).is_relative_to(root) for root in self._roots) for place in places
        )


def installed_roots() -> list[Path]:
    """Folders of the standard library, of what is installed, and ours."""
    places = sysconfig.get_paths()
    names = ["stdlib", "platstdlib", "purelib", "platlib"]
    folders = (
        [places[name] for name in names] + site.getsitepackages() + [site.getusersitepackages()]
    )
    return [Path(folder) for folder in folders] + [Path(place) for place in holdfast.__path__]


def user_folders() -> set[str]:
    """Folders on the search path that are the user's by PYTHONPATH."""
    given = os.environ.get("PYTHONPATH", "")
    return {os.path.abspath(path) for path in given.split(os.pathsep) if path}


def evict_shadowed(folders: list[str], kept: frozenset[str]) -> None:
    """Forget installed modules of whose name there is a file in `folders`, found before them.

    `kept` are those that any interpreter has loaded before it looks at a script. Ourselves we know
    also in a folder of the user's: what a script says by `holdfast.telemetry` goes to this process.
    """
    own = {os.path.realpath(place) for place in holdfast.__path__}
    found = ((folder, top) for folder in folders for top in _modules_in(folder))
    mine = {top for folder, top in found if os.path.realpath(f"{folder}/{top}") not in own} - kept
    for name in [name for name in sys.modules if name.partition(".")[0] in mine]:
        del sys.modules[name]


def _modules_in(folder: str) -> set[str]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return set()
    files = {e.name.partition(".")[0] for e in entries if e.name.endswith((".py", ".so"))}
    return files | {e.name for e in entries if os.path.exists(f"{e.path}/__init__.py")}
