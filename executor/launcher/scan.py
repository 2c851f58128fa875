"""Which modules a program is going to import, from its text alone. Pure but for reading files.

Called by the executor before a job's first attempt, when nobody has seen it run. Must not import
what it reads, nor a package to find what is in it.
"""

import ast
import os
import sys
from collections import deque
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import NamedTuple

from holdfast.executor.launcher.importing import installed_roots

MAX_FILES = 200
"""Files of the user's own that are read at most: beyond that the first attempt will tell."""

LAZY = {("torch", "optim"): ("torch._dynamo",)}
"""Imported at first use, not by an import statement: the first optimizer of torch 2.x loads
`torch._dynamo`, which took longer than torch itself (3.5 s)."""


class Source(NamedTuple):
    """A file, and the package that its relative imports start from; "" where it is in none."""

    path: Path
    package: str


def modules_of(*, script: str = "", module: str = "", code: str = "", workdir: str) -> list[str]:
    """Names of installed modules that the program imports at the top level of its files.

    The user's own modules, next to the script, in `workdir` or beside a module that is run and not
    installed, are followed, not named. Nor is a module that is run: it may train when imported.
    """
    folder = Path(os.path.join(workdir, script)).parent if script else Path(workdir)
    todo = deque[Source]()
    names: dict[str, None] = {}
    if code:
        _collect(code, "", folder, names, todo)
    elif script:
        todo.append(Source(Path(workdir, script), ""))
    else:
        folder, sources = _of_module(module, folder)
        todo.extend(sources)
    seen: set[Path] = set()
    while todo and len(seen) < MAX_FILES:
        path, package = todo.popleft()
        if path not in seen and (text := _read(path)):
            seen.add(path)
            _collect(text, package, folder, names, todo)
    own = {module, *(name for name in names if _own(name.partition(".")[0], folder))}
    return [name for name in names if name not in own]


def _of_module(module: str, folder: Path) -> tuple[Path, list[Source]]:
    """The user's folder, where the module is not installed, and what `-m` runs of it."""
    if own := _own(module, folder) + _own(f"{module}.__main__", folder):
        return folder, own
    sources = _found(module)
    if sources:
        path, package = sources[0]
        home = path.parents[len(package.split(".")) if package else 0]
        if not any(home.is_relative_to(root) for root in installed_roots()):
            return home, sources
    return folder, sources


def _found(module: str) -> list[Source]:
    """The files that `-m` runs for a module on the search path: each package's, then its own."""
    sources: list[Source] = []
    name, places = "", None
    for part in (*module.split("."), "__main__"):
        package, name = name, f"{name}.{part}" if name else part
        spec = _spec(name, places)
        if spec is None:
            break
        places = spec.submodule_search_locations
        if spec.origin and spec.origin.endswith(".py"):
            sources.append(Source(Path(spec.origin), package if places is None else name))
        if places is None:
            break
    return sources


def _spec(name: str, places: Sequence[str] | None) -> ModuleSpec | None:
    """As `importlib.util.find_spec`, which would import the packages above."""
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, places)
        except KeyError:  # a namespace package inside another asks for it among the imported ones
            continue
        if spec is not None:
            return spec
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _own(name: str, folder: Path) -> list[Source]:
    """Files of module `name` in the user's folder."""
    base, package = folder.joinpath(*name.split(".")), name.rpartition(".")[0]
    places = (Source(base.with_suffix(".py"), package), Source(base / "__init__.py", name))
    return [source for source in places if source.path.is_file()]


def _collect(
    text: str, package: str, folder: Path, names: dict[str, None], todo: deque[Source]
) -> None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    found = _imported(tree, package)
    for name in found:
        names[name] = None
        todo.extend(_own(name, folder))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    words = used | {part for name in found for part in name.split(".")}
    for (top, word), lazy in LAZY.items():
        if top in words and word in words:
            names.update(dict.fromkeys(lazy))


def _imported(tree: ast.Module, package: str) -> list[str]:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (base := _base(node, package)):
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return names


def _base(node: ast.ImportFrom, package: str) -> str:
    """What is imported from, by its whole name; "" where a relative import leads out."""
    if not node.level:
        return node.module or ""
    above = package.split(".")[: -(node.level - 1) or None] if package else []
    return ".".join([*above, *([node.module] if node.module else [])]) if above else ""
