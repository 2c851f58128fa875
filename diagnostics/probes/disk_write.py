"""How fast does this node write to its own disk: a file is written over, each piece synchronised.

What making it costs the file system is not counted. Memory and caches are passed by where the file
system can; see `scratch`.
"""

from holdfast.diagnostics.probes import Measured
from holdfast.diagnostics.probes.scratch import Scratch, measured
from holdfast.protocol.messages import DiagnosticOrder


class _Write:
    def once(self, scratch: Scratch, begin: int) -> None:
        scratch.write(begin)

    def right(self, scratch: Scratch) -> bool:
        return True  # what is written wrong shows when it is read


def run(order: DiagnosticOrder, node: str) -> Measured:
    """MB/s by the fastest of its pieces, with what others wrote and read meanwhile."""
    return measured(order, _Write())
