"""Who asks here without hearing the answer: handshakes that the kernel of this node has half done.

Read by the prober while a neighbour does not answer. A handshake needs both ways, so that a probe
in vain does not tell which one is cut. Where the other's request is here, and its last word is not,
the way here works, and the way there does not.
"""

from pathlib import Path

TABLE = Path("/proc/self/net/tcp")
"""Of this network namespace; proc(5)."""
_SYN_RECV = "03"


def asking(port: int, table: Path = TABLE) -> frozenset[str]:
    """Addresses (IPv4) of those whose handshakes with this port are half done; none where the
    kernel does not tell."""
    try:
        lines = table.read_text("ascii", "replace").splitlines()[1:]
    except OSError:
        return frozenset()
    fields = (line.split() for line in lines)
    rows = (row for row in fields if len(row) > 3 and row[3] == _SYN_RECV)
    return frozenset(_address(row[2]) for row in rows if row[1].endswith(f":{port:04X}"))


def _address(field: str) -> str:
    """`0100007F:1F90` is 127.0.0.1, port 8080: the address is a number of this machine's order."""
    number = int(field.partition(":")[0], 16)
    return ".".join(str(number >> shift & 255) for shift in (0, 8, 16, 24))
