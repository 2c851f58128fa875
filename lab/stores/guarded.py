"""A folder that is gone with the process that made it, however that ends."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_GUARD = 'cat >/dev/null; until rm -rf "$0" 2>/dev/null; do sleep .1; done'
"""What writes there is killed at the same time as this is told, and may still be writing."""


@contextmanager
def guarded_folder(prefix: str) -> Iterator[Path]:
    """A new folder; all that runs in it must have ended before the block does."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    guard = subprocess.Popen(
        ["sh", "-c", _GUARD, str(folder)],
        stdin=subprocess.PIPE,
        start_new_session=True,  # what interrupts us is not to end it before its work
    )
    assert guard.stdin is not None
    try:
        yield folder
    finally:
        guard.stdin.close()
        guard.wait(timeout=60)
