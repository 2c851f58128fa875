"""One fork server of `holdfast warm` for all tests of a session: what a run imports is imported
once.

Begun by the first that asks, in whatever worker; `tests/conftest.py` names its folder and ends it.
For tests that are marked `warm`: of what a run does, not of how it begins.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = "HOLDFAST_TEST_WARM"
"""Where it is, for all workers."""
WARM = [sys.executable, "-m", "holdfast.cli", "warm"]
IDLE_S = "600"
"""Where the tests are killed it goes by itself after so long."""
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""Ranks have this where several share a node. It must be the same in all that it forks."""


def make_room() -> None:
    """Name the folder; before there is a worker."""
    os.environ[FOLDER] = tempfile.mkdtemp(prefix="holdfast-warm-", dir="/tmp")


def environment() -> dict[str, str]:
    """With this, a `holdfast run` has its processes from it."""
    room = Path(os.environ[FOLDER])
    told = {"HOLDFAST_WARM_DIR": str(room), **ONE_THREAD}
    with (room / "begins").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (room / "warm.sock").exists():
            begin = [*WARM, "-n", "2", "--idle", IDLE_S]
            subprocess.run(begin, env=os.environ | told, check=True, stdout=subprocess.DEVNULL)
    return told


def end() -> None:
    """Once no worker is there any more."""
    room = os.environ.pop(FOLDER)
    if os.path.exists(os.path.join(room, "warm.sock")):
        told = os.environ | {"HOLDFAST_WARM_DIR": room}
        subprocess.run([*WARM, "--stop"], env=told, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(room)
