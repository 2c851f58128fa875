"""Follows the log files of a job's ranks on this machine and shows them as the script's own output.

Called by `cli.run.follow` a few times a second. Reads files, for they are here: no request a line.
"""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from holdfast.cli.run.merge import Merge
from holdfast.cli.run.tracebacks import Once
from holdfast.protocol.paths import RunPaths

CHUNK_BYTES = 1 << 20
"""Most that is read of one file at once, so that one loud rank does not keep the others waiting."""


class Tail:
    """One file that grows, and may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def read(self) -> bytes:
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except FileNotFoundError:
                return b""
        return self._file.read(CHUNK_BYTES)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class Stream:
    """stdout or stderr of all ranks of one attempt, written to ours."""

    def __init__(
        self, paths: RunPaths, job: str, attempt: int, ranks: int, name: str, once: Once
    ) -> None:
        self._once, self._filtered = once, name == "stderr"
        self._folders = [paths.rank(job, attempt, rank) for rank in range(ranks)]
        self._tails = [Tail(folder / f"{name}.log") for folder in self._folders]
        self._merge = Merge(ranks)

    def show(self, out: Callable[[bytes], None], now: float, *, last: bool = False) -> None:
        for rank, tail in enumerate(self._tails):
            while data := tail.read():
                self._merge.add(rank, self._wanted(rank, data), now)
                if not last:
                    break
            if last and self._filtered:
                self._merge.add(rank, self._once.rest(self._folders[rank]), now)
                self._name(rank)
        shown = self._merge.take(now, last=last)
        if last and self._filtered:
            shown += self._once.folded(self._folders)
        if shown:
            out(shown)

    def close(self) -> None:
        for tail in self._tails:
            tail.close()

    def _wanted(self, rank: int, data: bytes) -> bytes:
        """Of stderr: each exception once, and whose it is."""
        if not self._filtered:
            return self._once.other(data)
        wanted = self._once.take(self._folders[rank], data)
        self._name(rank)
        return wanted

    def _name(self, rank: int) -> None:
        if self._once.has_shown(self._folders[rank]):
            self._merge.name_ranks()


class Output:
    """The script's output, attempt after attempt, on our stdout and stderr."""

    def __init__(
        self,
        paths: RunPaths,
        job: str,
        ranks: int,
        *,
        stdout: Callable[[bytes], None],
        stderr: Callable[[bytes], None],
    ) -> None:
        self._paths, self._job, self._ranks = paths, job, ranks
        self._outs = {"stdout": stdout, "stderr": stderr}
        self._attempt = 0  # none yet
        self._streams: dict[str, Stream] = {}
        self._once = Once()

    def show(self, now: float) -> None:
        """Write what has come, of the newest attempt; what is left of older ones comes first."""
        for attempt in self._newer_attempts():
            self._finish(now)
            self._attempt = attempt
            self._streams = {
                name: Stream(self._paths, self._job, attempt, self._ranks, name, self._once)
                for name in self._outs
            }
        for name, stream in self._streams.items():
            stream.show(self._outs[name], now)

    def end(self, now: float) -> None:
        """Write all that is left, also of an attempt that was over before anybody looked."""
        self.show(now)
        self._finish(now)

    def _finish(self, now: float) -> None:
        """Write all that is left of this attempt."""
        for name, stream in self._streams.items():
            stream.show(self._outs[name], now, last=True)
            stream.close()
        self._streams = {}

    def ended_in(self, traceback: str) -> bool:
        """Whether the last that the script has shown is this exception."""
        return self._once.ended_in(traceback)

    def _newer_attempts(self) -> list[int]:
        folders = self._paths.job(self._job).glob("attempt_*")
        numbers = (int(folder.name.removeprefix("attempt_")) for folder in folders)
        return sorted(number for number in numbers if number > self._attempt)
