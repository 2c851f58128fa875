"""Reading on where a server broke off. Used by the stores behind a network.

A rank whose read fails refuses the whole checkpoint; most servers that break off have a neighbour,
or are back at once.
"""

from collections.abc import Callable, Iterator

from holdfast.checkpoint.stores import TemporaryStoreError

TRIES = 3
"""In a row that bring no byte."""


def resumed(read: Callable[[int], Iterator[bytes]], begin: int) -> Iterator[bytes]:
    """The pieces of `read(begin)`; where that fails for now, those behind what has come."""
    failures = 0
    while True:
        try:
            for chunk in read(begin):
                begin, failures = begin + len(chunk), 0
                yield chunk
            return
        except TemporaryStoreError:
            failures += 1
            if failures == TRIES:
                raise
