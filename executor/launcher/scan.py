"""Which modules a program is going to import, from its text alone. Pure but for reading files.

Called by the executor before a job's first attempt, when nobody has seen it run. Must not import
what it reads.
"""

import ast
import os
from collections import deque
from pathlib import Path

MAX_FILES = 200
"""Files of the user's own that are read at most: beyond that the first attempt will tell."""

LAZY = {("torch", "optim"): ("torch._dynamo",)}
"""Imported at first use, not by an import statement: the first optimizer of torch 2.x loads
`torch._dynamo`, which took longer than torch itself (3.5 s)."""


def modules_of(*, script: str = "", module: str = "", code: str = "", workdir: str) -> list[str]:
    """Names of installed modules that the program imports at the top level of its files.

    The user's own modules, next to the script or in `workdir`, are followed, not named.
    """
    folder = os.path.dirname(os.path.join(workdir, script)) if script else workdir
    todo = deque[Path]()
    names: dict[str, None] = {}
    if code:
        _collect(code, Path(folder), names, todo)
    elif script:
        todo.append(Path(workdir, script))
    else:
        todo.extend(_own(module, Path(folder)) + _own(f"{module}.__main__", Path(folder)))
        names.update({} if todo else {module: None})
    seen: set[Path] = set()
    while todo and len(seen) < MAX_FILES:
        path = todo.popleft()
        if path not in seen and (text := _read(path)):
            seen.add(path)
            _collect(text, Path(folder), names, todo)
    own = [name for name in names if _own(name.partition(".")[0], Path(folder))]
    return [name for name in names if name not in own]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _own(name: str, folder: Path) -> list[Path]:
    """Files of module `name` in the user's folder."""
    base = folder.joinpath(*name.split("."))
    return [path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()]


def _collect(text: str, folder: Path, names: dict[str, None], todo: deque[Path]) -> None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    found = _imported(tree)
    for name in found:
        names[name] = None
        todo.extend(_own(name, folder))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    words = used | {part for name in found for part in name.split(".")}
    for (package, word), lazy in LAZY.items():
        if package in words and word in words:
            names.update(dict.fromkeys(lazy))


def _imported(tree: ast.Module) -> list[str]:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names
