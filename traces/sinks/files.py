"""Blocks in files below the run's folder: the embedded default.

One process of a node writes its node's files. Old ones go by themselves. A full disk costs the
block that found it full, and no other.
"""

import os
from contextlib import suppress
from pathlib import Path

from holdfast.traces.segments import HOUR_S, segment_name, segments
from holdfast.traces.sinks import Away, Place

KEPT_S = 7 * 86_400.0
"""Files of a node are kept for a week: who asks on Monday what was slow on Tuesday has it."""
KEPT_BYTES = 512 << 20
"""And no more of a node and job than this, the newest: a week of 8 ranks at 150 KB an hour is
202 MB, and incidents have the rest."""


class FileSink:
    """Appends to the file of this node and hour."""

    named = "files"

    def __init__(self) -> None:
        self._swept: Path | None = None

    def put(self, place: Place, data: bytes) -> None:
        path = place.folder / segment_name(place.node, place.now_s)
        try:
            place.folder.mkdir(parents=True, exist_ok=True)
            _append(path, data)
        except OSError as error:
            raise Away(f"{path}: {error.strerror}") from error
        if path != self._swept:
            self._swept = path
            sweep(place)


def _append(path: Path, data: bytes) -> None:
    """All of it, or nothing. Raises `OSError`."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        before = os.fstat(fd).st_size
        written = 0
        try:
            while written < len(data):
                written += os.write(fd, data[written:])
        except OSError:
            os.ftruncate(fd, before)
            raise
    finally:
        os.close(fd)


def sweep(place: Place) -> None:
    """Remove what of this node and job is older, or more, than is kept."""
    left = KEPT_BYTES
    for segment in reversed(segments(place.folder)):
        if segment.node != place.node:
            continue
        with suppress(OSError):
            left -= segment.path.stat().st_size
            if left < 0 or (segment.hour + 1) * HOUR_S <= place.now_s - KEPT_S:
                segment.path.unlink(missing_ok=True)
