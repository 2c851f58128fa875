"""The end of a forked program: all that Python does for the program's sake, and nothing more.

A forked rank that tears its interpreter down walks through every object of every module that the
launcher had imported: 1.1 s of CPU with torch, against .02 s so (`os._exit` after the steps here).
Must not lose what the program left to be written, nor skip what it asked to be done at its end.
"""

import atexit
import contextlib
import gc
import io
import os
import signal
import sys
import threading
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn


def leave(ended: BaseException | None) -> NoReturn:
    """End this process as Python would after `ended`: None, `SystemExit` or what was printed. It
    dies of the signal where it was interrupted."""
    code, interrupted = _code(ended), isinstance(ended, KeyboardInterrupt)
    if ended is not None:
        ended.__traceback__ = ended.__context__ = None  # their frames hold the globals
    threading._shutdown()  # type: ignore[attr-defined]  # joins threads, as the interpreter does
    atexit._run_exitfuncs()
    _flush_files()  # a finalizer may close the file below a buffer that is not written yet
    _drop_globals()
    _flush_files()
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code)


def _code(ended: BaseException | None) -> int:
    """The exit code; an exit that is a text is printed, as `sys.exit("why")` promises."""
    if not isinstance(ended, SystemExit):
        return 0 if ended is None else 1
    if ended.code is None:
        return 0
    if isinstance(ended.code, int):
        return ended.code & 0xFF
    sys.stderr.write(f"{ended.code}\n")
    return 1


MARK = "what is left of holdfast"
"""No name that a program can have."""


class _Mark:
    """In the program's globals: what holds it still holds them."""


def _drop_globals() -> None:
    """What only the program's own globals held ends here, as at an interpreter's end: finalizers
    find all names as long as nothing else holds the globals, else names without a value; and where
    a daemon thread works with them, they stay.
    """
    names = sys.modules.pop("__main__").__dict__
    if any(names is each for frame in sys._current_frames().values() for each in _globals(frame)):
        return
    names[MARK] = mark = _Mark()
    marked = weakref.ref(mark)
    del names, mark
    gc.collect()  # of what came after the fork: the rest is frozen
    if (held := marked()) is not None:
        for still in [each for each in gc.get_referrers(held) if issubclass(type(each), dict)]:
            still.update(dict.fromkeys(still))


def _globals(frame: FrameType | None) -> Iterator[dict[str, Any]]:
    """Of this frame, and of those that wait for it."""
    while frame is not None:
        yield frame.f_globals
        frame = frame.f_back


FILE = io.IOBase.__mro__[1]
"""What every file is made of, without the metaclass of `io.IOBase`."""


def _flush_files() -> None:
    """Every file that is still open, wherever it is held, and our streams last. Nothing is asked
    for its `__class__`: proxies of what is gone raise there, and others answer with a warning.
    """
    for thing in [*gc.get_objects(), sys.stdout, sys.stderr]:
        if issubclass(type(thing), FILE):
            with contextlib.suppress(OSError, ValueError):  # closed, or its other end is gone
                thing.flush()
