"""One piece of work after the other, by several threads of a rank. Used by saves and restores.

Not torch's own threads: their pool waits for all of them wherever another process has a core. Must
not load torch.
"""

from collections.abc import Callable
from itertools import count
from threading import Thread


def by_threads(pieces: int, work: Callable[[int], None], *, threads: int, name: str) -> None:
    """Call `work` with the number of each piece, by so many threads, this one among them."""
    turns = count()

    def run() -> None:
        while (number := next(turns)) < pieces:
            work(number)

    others = [Thread(target=run, name=name, daemon=True) for _ in range(min(threads, pieces) - 1)]
    for other in others:
        other.start()
    run()
    for other in others:
        other.join()
