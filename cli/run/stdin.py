"""Whether somebody feeds our stdin: it goes to no rank, and they are to know. See
docs/decisions/command-line.md.

Called by `cli.run.follow`. Must not read from it: it belongs to whoever comes after us.
"""

import fcntl
import os
import stat
import sys
import termios

SAID = "stdin is not passed on: every rank reads an empty one. Name the file as an argument"


def is_fed() -> bool:
    """True for a file, and for a pipe in which something waits; not for a terminal."""
    try:
        kind = os.fstat(0).st_mode
        if stat.S_ISFIFO(kind):
            waiting = fcntl.ioctl(0, termios.FIONREAD, bytes(4))
            return int.from_bytes(waiting, sys.byteorder) > 0
    except OSError:
        return False  # it is closed
    return stat.S_ISREG(kind)
