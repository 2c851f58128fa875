"""Files of blocks: one a node and hour, grown at their end by one writer, read at any time.

`NODE@HOUR.spans`, the hour on the driver's clock. Used by the file sink and by whoever reads. What
cannot be read is said in a sentence a file, and the rest of it is read.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from holdfast.traces.block import HEAD, MAGIC, Block, NoBlock, decode, head

_NAME = re.compile(r"(?P<node>.{1,200})@(?P<hour>\d{1,9})\.spans", re.ASCII)
HOUR_S = 3600.0
LARGEST_READ_BYTES = 256 << 20
"""Of one file: a node's hour with an incident in each minute is less."""


class Segment(NamedTuple):
    """A file, whose it is, and of which hour since the driver began."""

    path: Path
    node: str
    hour: int


def segment_name(node: str, now_s: float) -> str:
    return f"{node}@{max(0, int(now_s // HOUR_S))}.spans"


def segments(folder: Path) -> list[Segment]:
    """Those in a job's folder of traces, oldest first; none where there is no such folder."""
    try:
        names = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for path in names:
        match = _NAME.fullmatch(path.name)
        assert match is not None, "only such names were taken"
        found.append(Segment(path, match["node"], int(match["hour"])))
    return sorted(found, key=lambda each: (each.hour, each.node))


class Reading:
    """Goes through segments; `troubles` has a sentence for each that is not whole."""

    def __init__(self) -> None:
        self.troubles: list[str] = []

    def blocks(
        self, path: Path, *, from_s: float = float("-inf"), to_s: float = float("inf")
    ) -> Iterator[Block]:
        """The blocks of a file that have something from then to then. Raises nothing."""
        try:
            with path.open("rb") as file:
                data = file.read(min(LARGEST_READ_BYTES, os.fstat(file.fileno()).st_size))
        except OSError as error:
            self.troubles.append(f"{path}: {error.strerror}; its spans are not shown.")
            return
        yield from self._of(data, path, from_s, to_s)

    def _of(self, data: bytes, path: Path, from_s: float, to_s: float) -> Iterator[Block]:
        at, said = 0, False
        while at < len(data):
            try:
                if MAGIC.startswith(data[at : at + 4]) and len(data) - at < HEAD.size:
                    return  # as below
                length, _, began_s, ended_s = head(data[at : at + HEAD.size])
                if at + HEAD.size + length > len(data) and data.find(MAGIC, at + 4) < 0:
                    return  # the last one is being written, or its writer was killed: no trouble
                if began_s <= to_s and ended_s >= from_s:
                    yield decode(data[at : at + HEAD.size + length])
                at += HEAD.size + length
            except NoBlock as why:
                if not said:
                    said = True
                    self.troubles.append(
                        f"{path}: at octet {at:,} {why}; what can be read of the rest is shown."
                    )
                following = data.find(MAGIC, at + 1)
                at = following if following >= 0 else len(data)
