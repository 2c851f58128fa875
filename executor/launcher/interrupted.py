"""Ctrl-C that Python drops: raised in a destructor, or beside a fork, it is printed and forgotten,
and the program runs on until it is killed. It comes once more, when that is over.

Set by the forked child before the program runs, which may have a hook of its own in its place.
"""

import os
import signal
import sys
import threading

AGAIN_S = 0.1
"""A destructor, or what is done beside a fork, is over by then; else it comes once more again."""


def not_dropped() -> None:
    """From here on."""
    before = sys.unraisablehook

    def hook(told: "sys.UnraisableHookArgs") -> None:
        before(told)
        if issubclass(told.exc_type, KeyboardInterrupt):
            again = threading.Timer(AGAIN_S, os.kill, (os.getpid(), signal.SIGINT))
            again.daemon = True
            again.start()

    sys.unraisablehook = hook
