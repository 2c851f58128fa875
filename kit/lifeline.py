"""A pipe that says by its end that whoever started this process is gone.

Read by processes whose parent keeps the writing end: the host of a node gives one to its executor
and daemon as their standard input. Only the kernel can be trusted to tell after a SIGKILL.
"""

import os
import stat


def lifeline() -> int | None:
    """Standard input where it is such a pipe, None where it is a terminal, a file or nothing.

    It becomes readable at its end, and stays so: `kit.owned.when_owner_is_gone(fd, end)`.
    """
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(0).st_mode)
    except OSError:
        return None
    return 0 if is_pipe else None
