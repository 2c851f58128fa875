"""What the kernel lets this process have.

Called at the start of processes, of those that hold a connection for each of thousands of nodes.
"""

import os
import resource
import stat


def raise_open_files() -> int:
    """Let this process have as many files and sockets open as it may give itself; how many.

    Where the soft limit is the usual 1,024, a driver could not hold the connections of 600 nodes.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def is_pollable(descriptor: int) -> bool:
    """Whether it is open here, and one whose end can be waited for."""
    try:
        mode = os.fstat(descriptor).st_mode
    except (OSError, OverflowError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)
