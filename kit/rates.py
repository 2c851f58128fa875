"""How fast bytes move, in words. Pure."""

_UNITS = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))


def rate(bytes_per_s: float) -> str:
    """`12.3 MB/s`."""
    for size, unit in _UNITS:
        if bytes_per_s >= size:
            return f"{bytes_per_s / size:.3g} {unit}"
    return f"{bytes_per_s:.0f} B/s"
