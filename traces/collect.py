"""Takes blocks from a Redis into a run's folder, where all else reads them.

Run by `holdfast trace collect`, beside a driver. A block is dropped from its stream once it is in
a file: what is interrupted is taken again, and told once (`model.longest`).
"""

import re
from pathlib import Path

from holdfast.protocol.paths import RunPaths
from holdfast.traces.block import NoBlock, decode
from holdfast.traces.sinks import Place
from holdfast.traces.sinks.files import FileSink
from holdfast.traces.sinks.redis import PREFIX, RedisSink

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")
"""Of a job or a node: it becomes the name of a file, and anybody may write to a Redis."""


class Collector:
    """From a Redis into the run in `root`."""

    def __init__(self, source: RedisSink, root: Path) -> None:
        self._source, self._root = source, root
        self._files: dict[str, FileSink] = {}
        self.troubles: list[str] = []

    def collect(self, job: str | None = None) -> int:
        """All that is there of a job, or of all; how many blocks. Raises `Away`."""
        taken = 0
        for key in self._source.streams():
            name, _, attempt = key.removeprefix(f"{PREFIX}:").rpartition(":")
            if _NAME.fullmatch(name) and attempt.isdecimal() and job in (None, name):
                while count := self._some(key, name, int(attempt)):
                    taken += count
        return taken

    def _some(self, key: str, job: str, attempt: int) -> int:
        numbers = []
        for entry in self._source.take(key):
            numbers.append(entry.number)
            try:
                block = decode(entry.block)
                if not _NAME.fullmatch(block.node):
                    raise NoBlock(f"{block.node[:40]!r} is no name of a node")
            except NoBlock as why:
                self.troubles.append(f"{key}, entry {entry.number}: {why}; it is left out.")
                continue
            folder = RunPaths(self._root).traces(job)
            place = Place(folder, job, attempt, block.node, entry.now_s)
            self._files.setdefault(block.node, FileSink()).put(place, entry.block)
        self._source.drop(key, numbers)
        return len(numbers)
