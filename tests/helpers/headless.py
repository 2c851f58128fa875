"""A process whose first thread has ended while another goes on; Linux shows a zombie."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dying import die_with_parent
from waiting import eventually

SCRIPT = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=[1000]).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@contextmanager
def headless() -> Iterator[subprocess.Popen[bytes]]:
    """Gone, and reaped, at the end of the `with`."""
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], preexec_fn=die_with_parent)
    try:
        eventually(lambda: looks_dead(process.pid), "its first thread has ended")
        yield process
    finally:
        process.kill()
        process.wait()


def looks_dead(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
