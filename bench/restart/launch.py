"""Launches: as they come, cold, and after `holdfast warm`.

Called by `benchmark`.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from holdfast.bench.figures import Try
from holdfast.bench.restart import page_cache
from holdfast.bench.restart.marks import RANKS, Marks
from holdfast.bench.restart.systems import Holdfast, System
from holdfast.bench.restart.turns import NotStarted, first_steps

COLD, WARM = "launch, cold page cache", "launch after holdfast warm"
STILL_HELD = 0.1
"""Of what a launch reads: with more in memory it is no cold one."""


def plain(system: System, folder: Path) -> Iterator[Try]:
    """With whatever the page cache has, which after other turns is all."""
    marks, began_ns = Marks(folder), time.monotonic_ns()
    with system.start(folder):
        yield first_steps(marks, began_ns, system.name)


def cold(system: System, folder: Path) -> Iterator[Try]:
    """As the first one after a boot."""
    held = page_cache.forget()
    if held > STILL_HELD:
        raise NotStarted(f"other processes hold {held:.0%} of the large files in memory")
    yield from (_renamed(one, COLD) for one in plain(system, folder))


def warm(system: Holdfast, folder: Path) -> Iterator[Try]:
    """What `holdfast warm` itself takes is told, too: it is paid before."""
    began_s = time.monotonic()
    with _fork_server(system, folder):
        took_s = time.monotonic() - began_s
        (first,) = plain(system, folder)
        told = msgspec.json.decode(_warm(system, folder, "--status", "--json").stdout)
    if not told["taken"]:
        raise NotStarted(f"the run did not take it: {told['refused']}")
    yield _renamed(first, WARM)
    yield Try(system=system.name, figure="holdfast warm", value=took_s)


@contextmanager
def _fork_server(system: Holdfast, folder: Path) -> Iterator[None]:
    _warm(system, folder, "-n", str(RANKS), "--idle", "300")
    try:
        yield
    finally:
        _warm(system, folder, "--stop")


def _warm(system: Holdfast, folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "holdfast.cli", "warm", *words]
    around = system.environment(folder)
    done = subprocess.run(command, env=around, cwd=folder, capture_output=True, check=False)
    if done.returncode:
        raise NotStarted(done.stderr.decode(errors="replace").strip())
    return done


def _renamed(one: Try, figure: str) -> Try:
    return msgspec.structs.replace(one, figure=figure)
