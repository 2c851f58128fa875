"""Numbers of things, how often, and how fast bytes move, as people say them. Pure."""

_TIMES = {1: "once", 2: "twice"}
_RATES = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))


def plural(count: int, thing: str) -> str:
    """`1 fault`, `2 faults`, `1,000 steps`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return _TIMES.get(count, f"{count} times")


def rate(bytes_per_s: float) -> str:
    """`12.3 MB/s`."""
    for size, unit in _RATES:
        if bytes_per_s >= size:
            return f"{bytes_per_s / size:.3g} {unit}"
    return f"{bytes_per_s:.0f} B/s"
