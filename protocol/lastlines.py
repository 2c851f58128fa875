"""How much a driver keeps of what ranks wrote on nodes that their job has left. Pure.

Used by executors, which tell it, and by the driver, which lets nobody tell it more.
"""

MOST_BYTES = 65_536
"""Of one file of a rank: some hundred lines, and any traceback."""
LEAST_BYTES = 512
"""Of one file of a rank, however many ranks there are: an error's last line."""
FILES = 2
"""stdout and stderr."""


def share_bytes(keeps_bytes: int, ranks: int) -> int:
    """Of each file of a job's ranks, where `keeps_bytes` are kept of it; 0 where nothing is."""
    if keeps_bytes <= 0:
        return 0
    return min(MOST_BYTES, max(LEAST_BYTES, keeps_bytes // (FILES * max(1, ranks))))
