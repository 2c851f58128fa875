"""Times as Kubernetes writes them. Pure."""

from datetime import UTC, datetime


def stamp(at_s: float) -> str:
    """`metav1.Time`: whole seconds."""
    return datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(at_s: float) -> str:
    """`metav1.MicroTime`, as leases have it."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds(stamped: str) -> float:
    """Seconds since 1970 of either kind."""
    return datetime.fromisoformat(stamped).timestamp()
