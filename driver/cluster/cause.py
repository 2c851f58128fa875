"""What a call to the outside follows from, so that whoever is called can write it down.

Said by `effect_runner` and by the operator around what they do; read where a call leaves this
process (the client of an API server puts it into the User-Agent, which the audit log keeps).
Whatever is awaited within, or begun there as a task, acts for the same. Must not be decided upon.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ACTING: ContextVar[str] = ContextVar("acting", default="")


def acting() -> str:
    """What is said now; "" where nobody said anything."""
    return _ACTING.get()


@contextmanager
def acting_for(*, term: int, entry: int | None, doing: str) -> Iterator[None]:
    """Within it all is done for journal entry `entry` of `term`; `doing` says what, and to whom."""
    token = _ACTING.set(f"term={term} entry={entry} {doing}")
    try:
        yield
    finally:
        _ACTING.reset(token)
