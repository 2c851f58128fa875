"""A disk that fails: a file system of its own, of which every operation ends with EIO from then on.

Used by chaos and by tests. It is an ext4 on a file, in the mount namespace of a process of its own,
with which it is gone; others see it through that process. Needs root.
"""

import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from holdfast.lab.kubernetes.build import NotHere
from holdfast.lab.kubernetes.process import Process
from holdfast.lab.stores.guarded import guarded_folder

READY_WITHIN_S = 30.0
LOOK_S = 0.02
ROOM_MB = 256

SHUT_DOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN (linux/fs/ext4/ext4.h): what a disk that is pulled comes to."""
AT_ONCE = 2
"""EXT4_GOING_FLAGS_NOLOGFLUSH: what was not flushed is lost."""

_MADE = (
    'truncate -s "$0"M image && mkfs.ext4 -q -m 0 image && mkdir disk'
    " && mount -t tmpfs -o ro none disk && mount -o loop image disk && exec sleep infinity"
)
"""What is below it takes nothing: who tries again while it is mended would write there."""


class FailingDisk:
    """Well until `fail`, and again after `mend`: what had been flushed is there then."""

    environment: ClassVar[Mapping[str, str]] = {}
    """What whoever uses it has to have; as of other servers of the lab."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._holder = Process(
            "failing-disk",
            ["unshare", "--mount", "sh", "-c", f'cd "$1" && {_MADE}', str(ROOM_MB), str(folder)],
            log=folder / "log",
        )

    def ready(self) -> None:
        """Return once it is mounted. Raises `NotHere`."""
        deadline_s = time.monotonic() + READY_WITHIN_S
        while not (self.path / "lost+found").is_dir():
            if self._holder.ended or time.monotonic() > deadline_s:
                raise NotHere(self._holder.last_words())
            time.sleep(LOOK_S)

    @property
    def path(self) -> Path:
        """As every process of this machine's root sees it."""
        return Path(f"/proc/{self._holder.pid}/root{self._folder}/disk")

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def fail(self) -> None:
        fd = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUT_DOWN, struct.pack("I", AT_ONCE))
        finally:
            os.close(fd)

    def mend(self) -> None:
        """Mount it anew, once nobody holds a file of it any more."""
        deadline_s = time.monotonic() + READY_WITHIN_S
        disk = self._folder / "disk"
        while (done := self._within("umount", str(disk))).returncode:
            if time.monotonic() > deadline_s:
                raise RuntimeError(done.stderr)
            time.sleep(LOOK_S)
        done = self._within("mount", "-o", "loop", str(self._folder / "image"), str(disk))
        if done.returncode:
            raise RuntimeError(done.stderr)

    def end(self) -> None:
        self._holder.kill()

    def _within(self, *command: str) -> subprocess.CompletedProcess[str]:
        entered = ("nsenter", "-t", str(self._holder.pid), "--mount", *command)
        return subprocess.run(entered, capture_output=True, text=True, check=False)


def missing() -> str:
    """Why there can be none here, in a sentence; "" where there can."""
    if os.geteuid():
        return "a disk that fails needs root here: a file system is mounted for it."
    if not Path("/dev/loop-control").exists():
        return "a disk that fails needs loop devices, and there are none here."
    return "" if shutil.which("mkfs.ext4") else "a disk that fails needs mkfs.ext4 (e2fsprogs)."


@contextmanager
def failing_disk() -> Iterator[FailingDisk]:
    """One that is well. Raises `NotHere`."""
    if why := missing():
        raise NotHere(why)
    with guarded_folder("holdfast-disk-") as folder:
        disk = FailingDisk(folder)
        try:
            disk.ready()
            yield disk
        finally:
            disk.end()
