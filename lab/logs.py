"""Where the logs of an emulated cluster are, said to who would otherwise not learn it.

Called by the demo and by chaos. Must not remove anything.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def logs_told(folder: Path) -> Iterator[None]:
    """Say it on stderr where the block does not come to its end: an error, a Ctrl-C."""
    with contextlib.ExitStack() as cut_short:
        cut_short.callback(sys.stderr.write, f"logs: {folder}\n")
        yield
        cut_short.pop_all()
