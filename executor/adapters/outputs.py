"""What the daemon beside us is told of each rank's output, in files of the node's memory.

Called by `executor.ranks` before a fork. Must not fail a start: training matters more than words.
"""

from pathlib import Path

import msgspec

from holdfast.kit.files import write_atomic
from holdfast.kit.logs import LazyLogger
from holdfast.protocol.messages import Desired
from holdfast.protocol.outputs import STREAMS, Output
from holdfast.protocol.paths import NodePaths, RunPaths

KEPT_STARTS = 4
"""Of a node, beside the newest: by the fourth after it what the first one printed has been read."""

_log = LazyLogger()


def show(paths: NodePaths, folder: Path, desired: Desired, rank: int) -> None:
    """Write down where this rank's output goes. Its files are there, and it is not yet."""
    assert desired.task is not None
    path = paths.output(desired.job or "", desired.epoch, rank)
    try:
        output = Output(
            job=desired.job or "",
            epoch=desired.epoch,
            rank=rank,
            folder=str(folder),
            attempt=desired.attempt,
            traces=str(RunPaths(Path(desired.task.log_root)).traces(desired.job or "")),
            began={stream: (folder / f"{stream}.log").stat().st_size for stream in STREAMS},
            rules=desired.task.log_rules,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, msgspec.json.encode(output))
    except OSError as error:
        _log.warning("output is not followed", rank=rank, path=str(path), why=error.strerror)


def drop_old(paths: NodePaths) -> None:
    """Forget all but the newest starts."""
    try:
        made = sorted((path.stat().st_mtime_ns, path) for path in paths.outputs.glob("*.json"))
        starts = list(dict.fromkeys(_start(path) for _, path in made))[-KEPT_STARTS:]
        for _, path in made:
            if _start(path) not in starts:
                path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("old outputs stay", path=str(paths.outputs), why=error.strerror)


def _start(path: Path) -> str:
    """Job and epoch."""
    return path.name.rpartition(".r")[0]
