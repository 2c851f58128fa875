"""One piece of work after the other, by several threads of a rank. Used by saves and restores.

Not torch's own threads: their pool waits for all of them wherever another process has a core. Must
not load torch.
"""

import os
from collections.abc import Callable
from itertools import count
from threading import Thread

MOST = 4
"""Of a rank that does nothing else: the others of its node do the same just then."""


def at_hand() -> int:
    """How many threads such a rank may have, whatever torch was told of them."""
    return min(MOST, len(os.sched_getaffinity(0)))


def by_threads(pieces: int, work: Callable[[int], None], *, threads: int, name: str) -> None:
    """Call `work` with the number of each piece, by so many threads, this one among them."""
    turns = count()

    def run() -> None:
        while (number := next(turns)) < pieces:
            work(number)

    others = []
    for _ in range(min(threads, pieces) - 1):
        try:
            (other := Thread(target=run, name=name, daemon=True)).start()
        except RuntimeError:  # there are no more to be had: those that there are do all of it
            break
        others.append(other)
    run()
    for other in others:
        other.join()
