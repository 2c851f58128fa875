"""The last lines of the ranks that were here, for the driver, once their job has left this node.

Called by `executor.loop` where the node's folders go with it. Must not read what still grows.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.protocol.lastlines import share_bytes
from holdfast.protocol.messages import Desired, LastLines
from holdfast.protocol.paths import RunPaths


class Left(msgspec.Struct, frozen=True):
    """Where a rank of a job wrote."""

    job: str
    attempt: int
    rank: int
    ranks: int
    folder: Path


class LeftHere:
    """Ranks of the newest attempt that was here."""

    def __init__(self) -> None:
        self._left: list[Left] = []
        self.keeps_bytes = 0  # of a job, as the driver said last

    def started(self, desired: Desired) -> None:
        """Its seats are being taken; what an attempt before wrote is no news."""
        if desired.job is None or desired.task is None:
            return
        job, root = desired.job, RunPaths(Path(desired.task.log_root))
        self._left = [
            Left(
                job,
                desired.attempt,
                seat.rank,
                desired.world_size,
                root.rank(job, desired.attempt, seat.rank),
            )
            for seat in desired.seats
        ]

    def told(self, wanted: str | None) -> Iterator[LastLines]:
        """What is to be told, once, where the node is `wanted` for another job, or for none."""
        if not self._left or self._left[0].job == wanted:
            return
        left, self._left = self._left, []
        for each in left:
            if most := share_bytes(self.keeps_bytes, each.ranks):
                yield LastLines(
                    job=each.job,
                    attempt=each.attempt,
                    rank=each.rank,
                    stdout=tail(each.folder / "stdout.log", most),
                    stderr=tail(each.folder / "stderr.log", most),
                )


def tail(path: Path, most: int) -> bytes:
    """The last whole lines, `most` bytes at most; behind a line that says what is not there."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size <= most:
                file.seek(0)
                return file.read(most)
            said = b"[the first %d bytes were not kept]\n"
            file.seek(size - most + len(said % size))
            end = file.read(most)
    except OSError:
        return b""
    end = end[end.find(b"\n") + 1 :] or end
    return said % (size - len(end)) + end
