"""Files in which the kernel, a driver of a device or a rank says something: read, never trusted.

Used by the samplers. What cannot be read is said once a sampler and file, in the log, and is None:
unknown, which is neither zero nor down.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from holdfast.kit.logs import LazyLogger

T = TypeVar("T")

MAX_BYTES = 1 << 16
"""Read of a file. `/proc/stat` can be longer: its first line is what is wanted of it."""
COUNTER_DIGITS = 20
"""Of the largest number of 64 bits: what has more is no counter. Python reads up to 4,300."""
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.EINVAL)
"""Nothing to say of these: no such file here, its device has just gone, or the kernel's answer for
the carrier of a NIC that is administratively down (net/core/net-sysfs.c)."""
NONE = "N/A"
"""What a counter of RDMA says that this hardware does not have."""
LARGEST_SAID = 1_000
"""Files of which something was said: after that nothing more, and no more memory."""

_log = LazyLogger()


class Readings:
    """The files of one sampler."""

    def __init__(self, sampler: str) -> None:
        self._sampler = sampler
        self._said: set[Path] = set()
        self._now: dict[Path, str] = {}

    @property
    def unreadable_now(self) -> tuple[str, ...]:
        """Files that could not be read when they were looked at last, each with the reason."""
        return tuple(f"{path}: {why}" for path, why in self._now.items())

    def text(self, path: Path) -> str | None:
        """What it says, or "" where there is no such file; None where it cannot be read."""
        try:
            text = read_bytes(path, MAX_BYTES).decode(errors="replace").strip()
        except OSError as error:
            if error.errno not in NOT_THERE:
                self.unreadable(path, error.strerror or type(error).__name__)
                return None
            text = ""
        self.readable(path)
        return text

    def number(self, path: Path) -> int | None:
        """A counter's value; None for `N/A`, where there is none, and where it cannot be read."""
        text = self.text(path)
        if text is None or text == NONE or (text == "" and not path.exists()):
            return None
        return self._made_of(path, text, counter)

    def parsed(self, path: Path, parse: Callable[[str], T]) -> T | None:
        """What `parse` makes of its words; None where there is no file, or it makes nothing."""
        text = self.text(path)
        return self._made_of(path, text, parse) if text else None

    def _made_of(self, path: Path, text: str, parse: Callable[[str], T]) -> T | None:
        try:
            return parse(text)
        except (ValueError, LookupError) as error:
            self.unreadable(path, f"{text[:40]!r}, {type(error).__name__}: {error}")
            return None

    def readable(self, path: Path) -> None:
        """What was said of it is over."""
        self._now.pop(path, None)

    def unreadable(self, path: Path, why: str) -> None:
        """Say so, at the first time."""
        if path in self._now or len(self._now) < LARGEST_SAID:
            self._now[path] = why
        if path not in self._said and len(self._said) < LARGEST_SAID:
            self._said.add(path)
            _log.warning("unreadable", sampler=self._sampler, file=str(path), why=why)


def counter(text: str) -> int:
    """The number that it is. Raises `ValueError`."""
    if not (text.isascii() and text.isdecimal() and len(text) <= COUNTER_DIGITS):
        raise ValueError("not a counter")
    return int(text)


def sendable(text: str) -> str:
    """Text that can be sent: names of files and interfaces may have any bytes."""
    return os.fsencode(text).decode(errors="replace")


def read_bytes(path: Path, limit: int) -> bytes:
    """The first `limit` bytes. Raises `OSError`; a pipe that nobody writes to is not waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(fd, limit)
    finally:
        os.close(fd)
