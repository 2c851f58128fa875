"""On account of what something is done, so that whoever is asked for it can write it down.

Said around what is done; read where a call leaves this process (a client of an API server puts it
into its User-Agent, which the audit log keeps). Whatever is awaited within, or begun there as a
task, is done for the same. Must not be decided upon.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ACTING: ContextVar[str] = ContextVar("acting", default="")


def acting() -> str:
    """What is said now; "" where nobody said anything."""
    return _ACTING.get()


@contextmanager
def acting_on(cause: str) -> Iterator[None]:
    """Within it all is done on account of `cause`."""
    token = _ACTING.set(cause)
    try:
        yield
    finally:
        _ACTING.reset(token)
