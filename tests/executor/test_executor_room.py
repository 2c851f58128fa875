"""Ranks are not started where the disk of their logs has no room, on a real disk that is full."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from namespaces import own_mounts

from holdfast.executor import rendezvous
from holdfast.executor.adapters.room import to_free_mib
from holdfast.executor.core.actions import HostRendezvous
from holdfast.executor.core.events import RoomLacked
from holdfast.executor.spawner import Spawner

ON_A_DISK = """
import sys
from pathlib import Path
from holdfast.executor.adapters.room import to_free_mib

disk, filled, logs = Path("/mnt"), int(sys.argv[1]) << 20, Path("/mnt/not/yet/there")
(disk / "filler").write_bytes(b"x" * filled)
print(to_free_mib(logs))
"""


@pytest.mark.parametrize(
    ("size_mib", "filled_mib", "to_free"),
    [(160, 100, 0), (160, 143, 0), (160, 146, 32), (8, 5, 0), (8, 7, 4)],
    ids=["room", "just enough", "too little", "a small disk", "a small disk that is full"],
)
def test_what_has_to_be_free_is_sixteen_mib_or_a_quarter(
    tmp_path: Path, size_mib: int, filled_mib: int, to_free: int
) -> None:
    script = tmp_path / "asks.py"
    script.write_text(ON_A_DISK)
    mount = f"mount -t tmpfs -o size={size_mib}m none /mnt && exec {sys.executable} {script}"
    done = subprocess.run(
        [*own_mounts(), "sh", "-c", f"{mount} {filled_mib}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == (str(to_free), 0), done.stderr


def test_a_disk_that_says_nothing_of_its_room_holds_nobody() -> None:
    assert to_free_mib(Path("/proc/self")) == 0


async def test_ranks_wait_for_room_which_is_told_when_it_lacks_and_when_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Any] = []
    looks = iter([32, 8, 0])
    monkeypatch.setattr(rendezvous, "to_free_mib", lambda _folder: next(looks))
    monkeypatch.setattr(rendezvous, "ROOM_LOOK_S", 0)
    hosts = rendezvous.RendezvousHost(Spawner.__new__(Spawner), "127.0.0.1", told.append)
    await hosts._room(HostRendezvous(job="job", epoch=3, logs="/logs"))
    lacks, is_there = told
    assert "at least 32 MiB" in lacks.why
    assert is_there == RoomLacked(job="job", epoch=3, why="")


ENDS_THERE = """
import os
from pathlib import Path
from holdfast.executor.adapters.children import Exit
from holdfast.executor.ranks import _error

folder = Path("/mnt/jobs/job/attempt_1/rank_0")
folder.mkdir(parents=True)
def ended(code, signal=None):
    error = _error(folder, Exit(code=code, signal=signal))
    print(error and (error.exception, error.message))
ended(1)
try:
    with Path("/mnt/filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"x" * 4096)
except OSError:
    ended(1)
ended(None, 9)
TORN = "[rank0]: Traceback (most recent call last):\\n[rank0]:   File \\"t.py\\", line 1\\n"
os.truncate("/mnt/filler", 60 << 20)
ERROR = "[rank0]: OSError: [Errno 28] No space left on device\\n"
(folder / "stderr.log").write_text("a warning\\n" + TORN + ERROR)
ended(1)
(folder / "stderr.log").write_text(TORN + "[rank0]: ValueError: bad\\n")
ended(1)
"""


def test_a_rank_whose_last_words_had_no_room_is_told_as_what_it_died_of(tmp_path: Path) -> None:
    script = tmp_path / "ends.py"
    script.write_text(ENDS_THERE)
    done = subprocess.run(
        [
            *own_mounts(),
            *("sh", "-c"),
            f"mount -t tmpfs -o size=64m none /mnt && exec {sys.executable} {script}",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = done.stdout.splitlines()
    assert (said[0], said[2]) == ("None", "None"), done.stderr
    assert said[1] == said[3]
    assert "('OSError', 'OSError: [Errno 28] No space left on device (the disk of " in said[1]
    assert "/mnt/jobs/job is full: free at least 32 MiB there)" in said[1]
    assert said[4] == "('ValueError', 'ValueError: bad')", "the disk is full, and not why"
