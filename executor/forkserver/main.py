"""Entry of the fork server: `FOLDER IDLE_S MODULE…`, its standard output handed down.

Prints one line of JSON once it listens, or why it does not, and nothing after that.
"""

import fcntl
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.executor.forkserver import marks, reads
from holdfast.executor.forkserver.becoming import be
from holdfast.executor.forkserver.process import take_lifeline
from holdfast.executor.forkserver.server import Server, listening
from holdfast.executor.launcher import naming
from holdfast.executor.launcher.child import run
from holdfast.executor.launcher.importing import Importer
from holdfast.executor.launcher.serve import Server as Launcher
from holdfast.executor.launcher.serve import unfit
from holdfast.protocol.forkserving import (
    LOCK,
    MARKS_HERE,
    SOCKET,
    NotTaken,
    Process,
    Program,
    Taken,
)


def main(arguments: Sequence[str], at_start: frozenset[str]) -> None:
    """Serve; in a launcher that was forked, be it, and in what that forks, the program."""
    folder, idle_s, *modules = arguments
    started_with = dict(os.environ)
    lock = os.open(Path(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _alone(lock):
            raise ValueError("another one is there, or about to be")
        _warm(modules)
        listener = listening(Path(folder, SOCKET))
    except (OSError, ValueError) as error:
        _say(NotTaken(why=str(error)))
        return
    server = Server(listener, started_with, ends_after_s=float(idle_s))
    naming.call("holdfast-warm", ["holdfast", "warm"])
    _say(Taken(pid=os.getpid()))
    forked = server.serve()
    if forked is None:
        Path(folder, SOCKET).unlink(missing_ok=True)
        os._exit(0)  # Python's own end walks through every object of torch
    server.close()
    os.close(lock)
    reads.watch_no_more()
    os.environ.pop(MARKS_HERE)
    if isinstance(forked.asked, Process):
        take_lifeline(forked.asked.lifeline)
    if isinstance(forked.is_, Program):
        be(forked.is_)
    program = Launcher(forked.is_, started_with).serve()
    if program is not None:
        run(program, at_start)


def _alone(lock: int) -> bool:
    """For as long as this process lives; whose it is can be read there."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    return True


def _warm(modules: Sequence[str]) -> None:
    """Raises `ValueError` where nothing could be forked from what was imported."""
    marks.check()
    importer = Importer()
    gc.disable()
    for name in modules:
        if not name.startswith("holdfast."):
            reads.watch()
        importer.load(name)
    gc.enable()
    if why := unfit() or (importer.half and f"its import of {importer.half} failed half-way"):
        raise ValueError(why)
    gc.collect()
    gc.freeze()


def _say(answer: Taken | NotTaken) -> None:
    os.write(1, msgspec.json.encode(answer) + b"\n")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
    sys.stdout.flush()
