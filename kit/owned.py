"""The child's side of `supervise`: it ends when whoever started it is gone.

Used by processes with `--die-with-fd` or a `kit.lifeline`, in their event loops.
"""

import asyncio
from collections.abc import Callable


def when_owner_is_gone(die_with_fd: int, end: Callable[[], object]) -> None:
    """Call `end` once, when this end of the owner's pipe reads end-of-file."""
    loop = asyncio.get_running_loop()

    def gone() -> None:
        loop.remove_reader(die_with_fd)  # it is readable for ever
        end()

    loop.add_reader(die_with_fd, gone)
