"""Bursts in files beside a job's traces: `traces/bursts/NUMBER.burst`, the newest ones kept.

Written by the driver alone. Before the record stands a line of JSON: which node, when and why.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.protocol.paths import RunPaths
from holdfast.traces.bursts.record import Burst, NoBurst, decode
from holdfast.traces.sinks.files import KEPT_S

MOST_KEPT = 100
"""Of a job: a burst is at most 900 KB, mostly a tenth of that."""
_NAME = re.compile(r"(\d{1,9})\.burst", re.ASCII)


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Which burst it is. `began_at`: time of day, in UTC. `began_s`: the driver's clock."""

    id: int
    node: str
    began_at: str
    began_s: float
    why: str
    incident: int | None
    rails: list[str]
    samples: int


def folder(root: Path, job: str) -> Path:
    return RunPaths(root).traces(job) / "bursts"


def keep(root: Path, job: str, note: Note, data: bytes) -> Note:
    """Write it under the next number; old ones go. Raises `OSError`."""
    there = folder(root, job)
    there.mkdir(parents=True, exist_ok=True)
    known = _numbers(there)
    note = msgspec.structs.replace(note, id=max(known, default=0) + 1)
    partial = there / f"{note.id}.partial"
    partial.write_bytes(msgspec.json.encode(note) + b"\n" + data)
    partial.rename(there / f"{note.id}.burst")
    _sweep(there, known, note.began_s)
    return note


def notes(root: Path, job: str) -> list[Note]:
    """All that are kept, oldest first. What cannot be read is left out."""
    return [note for number in _numbers(folder(root, job)) for note in _note(root, job, number)]


def read(root: Path, job: str, number: int) -> tuple[Note, Burst]:
    """Raises `FileNotFoundError`, another `OSError`, or `NoBurst`."""
    data = (folder(root, job) / f"{number}.burst").read_bytes()
    head, _, rest = data.partition(b"\n")
    try:
        note = msgspec.json.decode(head, type=Note)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NoBurst(f"has no note: {error}") from error
    return note, decode(rest)


def _note(root: Path, job: str, number: int) -> Iterator[Note]:
    with (
        suppress(OSError, msgspec.DecodeError, UnicodeDecodeError),
        (folder(root, job) / f"{number}.burst").open("rb") as file,
    ):
        yield msgspec.json.decode(file.readline(65_536), type=Note)


def _numbers(there: Path) -> list[int]:
    try:
        found = [_NAME.fullmatch(path.name) for path in there.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(match[1]) for match in found if match)


def _sweep(there: Path, known: list[int], now_s: float) -> None:
    """As traces: after seven days, on the driver's clock; and none beyond the newest."""
    for number in known[: max(0, len(known) + 1 - MOST_KEPT)]:
        (there / f"{number}.burst").unlink(missing_ok=True)
    for number in known:
        path = there / f"{number}.burst"
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            with path.open("rb") as file:
                note = msgspec.json.decode(file.readline(65_536), type=Note)
            if note.began_s <= now_s - KEPT_S:
                path.unlink()
