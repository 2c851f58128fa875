"""Files that are whole or absent: write beside, flush, rename."""

import os
from pathlib import Path


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644, durable: bool = False) -> None:
    """Put `data` at `path` so that a reader, or a crash, sees the old content or the new.

    Raises `OSError` (`ENOSPC` among them) with nothing changed at `path`.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        beside.rename(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
