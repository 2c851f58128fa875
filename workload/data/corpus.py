"""The bytes of all files given, as one text.

Called by `train` and `main`. Room for 18 (one reader a node) and 19 (read ahead).
"""

import sysconfig
from collections.abc import Sequence
from pathlib import Path

import torch

LEFT_OUT = frozenset({"site-packages", "dist-packages", "test", "tests", "__pycache__"})
"""Folders of the standard library that differ between installations."""


class BadData(ValueError):
    """The text cannot be used; the message names the path and the fix."""


def default_paths() -> tuple[Path, ...]:
    """This Python's own standard library."""
    return (Path(sysconfig.get_path("stdlib")),)


def files(paths: Sequence[Path]) -> list[Path]:
    """The files meant by `paths`, in an order that does not depend on the disk.

    A file means itself; a folder, all its files; the standard library, its `*.py`. Raises
    `BadData` for a path that is not there.
    """
    if not paths:
        return _python_sources(default_paths()[0])
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise BadData(f"--data: {path} does not exist. Give files or folders that do.")
        found += sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return found


def _python_sources(folder: Path) -> list[Path]:
    """`*.py` below `folder`, without entering what is left out."""
    found: list[Path] = []
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and entry.name not in LEFT_OUT:
            found += _python_sources(entry)
        elif entry.suffix == ".py":
            found.append(entry)
    return found


def read(paths: Sequence[Path], *, least_bytes: int) -> torch.Tensor:
    """All bytes of `paths`, one after the other, uint8 (N,).

    Raises `BadData` when a path is missing, unreadable, or the text shorter than `least_bytes`.
    """
    try:
        text = b"".join(path.read_bytes() for path in files(paths))
    except OSError as error:
        raise BadData(f"--data: cannot read {error.filename}: {error.strerror}.") from error
    if len(text) < least_bytes:
        raise BadData(
            f"--data: {len(text)} bytes of text, one step needs {least_bytes}. "
            "Give more text, or a smaller --seq or --global-batch."
        )
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


def unigram_entropy_bits(text: torch.Tensor) -> float:
    """Bits a byte that a model needs which knows how frequent each byte is, and nothing else."""
    counts = torch.bincount(text, minlength=256).double()
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * shares.log2()).sum())
