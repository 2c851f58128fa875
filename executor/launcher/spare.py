"""A forked child that has no program yet, and waits for one on a socket of its own.

Called by `serve` right after the fork. Must not do anything that the program would see.
"""

import os
import socket

import msgspec

from holdfast.executor.launcher import naming
from holdfast.executor.launcher.orders import MAX_PACKET_BYTES, Fork

NAME = "spare"


def program_at(fd: int) -> tuple[Fork, list[int]]:
    """The order that comes, with its stdout and stderr. Ends this process where none will."""
    naming.call(NAME, [NAME])
    with socket.socket(fileno=os.dup(fd)) as link:
        data, fds, _, _ = socket.recv_fds(link, MAX_PACKET_BYTES, 2)
    if not data:
        os._exit(0)
    return msgspec.json.decode(data, type=Fork), fds
