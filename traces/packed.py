"""Spans as Parquet, by day and rank: `day=2026-11-26/rank=3/NODE@HOUR.parquet`.

Made of files of blocks that nobody writes to any more, which go then; read where a window reaches
back so far. DuckDB writes and reads them.
"""

import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from holdfast.kit.files import write_atomic
from holdfast.traces import tables
from holdfast.traces.model import Span
from holdfast.traces.segments import Reading, Segment, segments

FAR_S = 1e18
"""In place of infinity, which SQL has no number for."""
_WORKING, _PACKED = ".packing", ".packed"
TOGETHER = 64
"""Files of one hour that are packed at once."""


class Packed:
    """What was done: `spans` of `files`, and `troubles` with what was left as it is."""

    def __init__(self) -> None:
        self.files = self.spans = self.octets = 0
        self.troubles: list[str] = []


def pack(folder: Path, *, everything: bool = False, threads: int | None = None) -> Packed:
    """Of a job's folder of traces; `everything`: also what daemons may still write to, once the job
    has ended. `threads`: of DuckDB; None: one a core. Raises `NotInstalled`."""
    done = Packed()
    connection = tables.connected()
    if threads is not None:
        connection.execute(f"SET threads = {threads:d}")
    try:
        _let_go(folder)  # an earlier one was interrupted
        for some in _batches(_finished(folder, everything=everything)):
            _pack(connection, folder, some, done)
    finally:
        connection.close()
        shutil.rmtree(folder / _WORKING, ignore_errors=True)
    return done


def _finished(folder: Path, *, everything: bool) -> list[Segment]:
    """All but each node's newest, in which it writes."""
    found = segments(folder)
    newest = {segment.node: segment.path for segment in found}
    return [each for each in found if everything or newest[each.node] != each.path]


def _batches(found: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Some of one hour at a time: for each DuckDB begins anew, which takes it 50 ms."""
    for _, of_hour in groupby(found, key=lambda each: each.hour):
        listed = list(of_hour)
        for at in range(0, len(listed), TOGETHER):
            yield listed[at : at + TOGETHER]


def _pack(connection: Any, folder: Path, some: Sequence[Segment], done: Packed) -> None:
    """They go once all they had is in place: whoever is interrupted before does it again, into the
    same files."""
    reading, working = Reading(), folder / _WORKING
    shutil.rmtree(working, ignore_errors=True)
    with TemporaryDirectory(prefix="holdfast-trace-") as temporary:
        raw = Path(temporary) / "raw.csv"
        with raw.open("w", newline="") as file:
            blocks = (block for each in some for block in reading.blocks(each.path))
            count = tables.write_rows(file, blocks)
        done.troubles += reading.troubles
        if count:
            write(connection, raw, working, some[0].path.stem)
    for path in sorted(working.glob("day=*/rank=*/*.parquet")):
        place = folder / path.relative_to(working)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)
        done.octets += place.stat().st_size
    write_atomic(folder / _PACKED, "\n".join(each.path.name for each in some).encode())
    _let_go(folder)
    done.files += len(some)
    done.spans += count


def _let_go(folder: Path) -> None:
    """Of files all of which is packed."""
    try:
        names = (folder / _PACKED).read_text().splitlines()
    except FileNotFoundError:
        return
    for segment in segments(folder):
        if segment.path.name in names:
            segment.path.unlink(missing_ok=True)
    (folder / _PACKED).unlink(missing_ok=True)


def write(connection: Any, raw: Path, folder: Path, name: str) -> None:
    """Rows of CSV as Parquet below `folder`, each file called `name`."""
    folder.mkdir(parents=True, exist_ok=True)
    target, pattern = (each.replace("'", "''") for each in (str(folder), name))
    connection.execute(
        f"COPY (SELECT * FROM {tables.RAW} ORDER BY day, rank, start_s) TO '{target}' "
        f"(FORMAT parquet, COMPRESSION zstd, "
        f"PARTITION_BY (day, rank), FILENAME_PATTERN '{pattern}_{{i}}', OVERWRITE_OR_IGNORE)",
        [str(raw)],
    )


def spans_of(
    folder: Path,
    *,
    from_s: float,
    to_s: float,
    ranks: Collection[int] | None,
    submitted_s: float,
    limit: int,
    newest: bool = False,
) -> Iterator[Span]:
    """What was packed of the newest job of this name, submitted then or later, and of that time;
    the earliest first, or the latest where the newest are wanted. Raises `NotInstalled`."""
    files = tables.packed_files(folder)
    if ranks is not None:
        wanted = {f"rank={rank}" for rank in ranks}
        files = [path for path in files if path.parent.name in wanted]
    if not files:
        return
    connection = tables.connected()
    try:
        asked = (
            "SELECT rank, attempt, node, kind, name, grp, step, start_s, took_s, waited_s, number, "
            "ended FROM read_parquet(?, hive_partitioning = true) "
            "WHERE submitted_s >= ? AND start_s <= ? AND start_s + took_s >= ? "
            "QUALIFY submitted_s = max(submitted_s) OVER () ORDER BY start_s "
            f"{'DESC ' if newest else ''}LIMIT ?"
        )
        named = [str(path) for path in files]
        given = [named, max(submitted_s, -FAR_S), min(to_s, FAR_S), from_s, limit]
        for row in connection.execute(asked, given).fetchall():
            yield Span(**dict(zip(_FIELDS, row, strict=True)))
    finally:
        connection.close()


_FIELDS = (
    "rank",
    "attempt",
    "node",
    "kind",
    "name",
    "group",
    "step",
    "start_s",
    "took_s",
    "waited_s",
    "number",
    "ended",
)


def has_packed(folder: Path) -> bool:
    with suppress(OSError):
        return any(folder.glob("day=*"))
    return False
