"""Where the multiprocessing of a rank has its sockets: in a folder that the executor made.

Installed by `hooks` once `multiprocessing` is loaded. Children have it from the rank, by fork and
by spawn; without it each of them makes a folder of its own, and leaves it where it is killed.
"""

import os
from typing import Any

from holdfast.protocol.rankenv import SOCKETS


def hook_processes(module: Any) -> None:
    """`multiprocessing.process`."""
    if folder := os.environ.get(SOCKETS):
        module.current_process()._config["tempdir"] = folder
