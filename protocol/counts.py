"""Numbers of things, and how often, as people say them. Pure."""

_TIMES = {1: "once", 2: "twice"}


def plural(count: int, thing: str) -> str:
    """`1 fault`, `2 faults`, `1,000 steps`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return _TIMES.get(count, f"{count} times")
