"""The uncaught exception, written where torch elastic's agents look for it.

Installed by `hooks.install` in a rank. Must not hide the exception from the user, nor change how
the process ends; `SystemExit` never comes here.
"""

import json
import os
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from types import TracebackType


def install() -> None:
    """Write `TORCHELASTIC_ERROR_FILE` on an uncaught exception, then go on as before.

    Its name is looked up then: a process may have become the rank of another attempt.
    """
    if not os.environ.get("TORCHELASTIC_ERROR_FILE"):
        return
    before = sys.excepthook

    def record(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        with suppress(Exception):  # nothing of ours may stand before the user's own traceback
            write(Path(os.environ["TORCHELASTIC_ERROR_FILE"]), kind, error, trace)
        before(kind, error, trace)

    sys.excepthook = record


def write(
    target: Path, kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Write the error file in torch elastic's format (errors/error_handler.py), once."""
    text = "".join(traceback.format_exception(kind, error, trace))
    extra = {"py_callstack": text, "timestamp": str(int(time.time()))}  # noqa: TID251 its format
    said = f"{kind.__name__}: {error}".removesuffix(": ")  # not every exception says something
    message = {"message": {"message": said, "extraInfo": extra}}
    if not target.exists():
        target.write_text(json.dumps(message))
