"""What the kernel lets this process have.

Called at the start of processes that hold a connection for each of thousands of nodes.
"""

import resource


def raise_open_files() -> int:
    """Let this process have as many files and sockets open as it may give itself; how many.

    Where the soft limit is the usual 1,024, a driver could not hold the connections of 600 nodes.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most
