"""`holdfast bench` on a control plane of its own, run as a person runs it, and what it leaves."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from holdfast.keeper.processes import all_pids
from holdfast.lab.emulator.namespaces import Kind, best_kind
from holdfast.lab.kubernetes.build import NotHere
from holdfast.lab.kubernetes.programs import command

BENCH = [sys.executable, "-m", "holdfast.cli", "bench"]


@contextmanager
def bench_folder() -> Iterator[Path]:
    """Of a short name: it has Unix sockets in it. A PostgreSQL, which is not root's, passes it."""
    with TemporaryDirectory(prefix="bench-") as short:
        Path(short).chmod(0o711)
        yield Path(short)


@contextmanager
def running(folder: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """The benchmark, with all its files in the folder."""
    for program in ("kubectl", "kwok"):
        try:
            command(program)
        except NotHere as missing:
            pytest.skip(str(missing))
    if best_kind()[0] is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {best_kind()[1]}")
    with (folder / "said").open("w") as said:
        environment, pipe = os.environ | {"TMPDIR": str(folder)}, subprocess.PIPE
        bench = subprocess.Popen(
            [*BENCH, *options, "--json"], env=environment, stdout=pipe, stderr=said, text=True
        )
        with bench as process:
            try:
                yield process
            finally:
                process.kill()


def left_of(folder: Path) -> list[str]:
    """Commands of processes that name the folder, and what lies in it."""
    found = [path.name for path in folder.iterdir() if path.name != "said"]
    for pid in all_pids():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        if str(folder).encode() in words:
            found.append(words.decode().replace("\0", " "))
    return found
