"""Runs a command that cannot outlive us: it is killed once standard input is at its end.

Started by `plane` for each program of the control plane, by path, with nothing imported that takes
time. Standard input is a pipe that the starter holds: it ends however the starter ends. SIGTERM is
passed on. Exits as the command did.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading

PR_SET_PDEATHSIG = 1  # prctl(2); the thread that starts the command is our main one, to the end


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(command: list[str]) -> int:
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        preexec_fn=_die_with_parent,  # noqa: PLW1509 no thread runs yet
    )
    signal.signal(signal.SIGTERM, lambda *_: child.send_signal(signal.SIGTERM))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the starter's to judge

    def kill_at_end() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1):
                pass
        child.kill()

    threading.Thread(target=kill_at_end, daemon=True).start()
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
