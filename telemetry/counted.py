"""Messages with one peer, and time in one phase, as a rank counts them.

Used by the recorder, inside a rank.
"""

from holdfast.telemetry.ring import RingWriter


class Peer:
    """Point-to-point messages with one rank. Which are done is not known: a gloo work says so only
    once somebody has waited for it, and to keep works is to keep their buffers."""

    def __init__(self, ring: RingWriter, slot: int) -> None:
        self._ring, self._slot = ring, slot
        self._sends = self._receives = 0

    def sent(self) -> None:
        self._sends += 1
        self._ring.peer(self._slot, 1, self._sends)

    def received(self) -> None:
        self._receives += 1
        self._ring.peer(self._slot, 3, self._receives)


class Phase:
    """Time spent in one phase so far."""

    def __init__(self, ring: RingWriter, slot: int) -> None:
        self._ring, self.slot = ring, slot
        self._wall_ns = self._thread_ns = 0

    def add(self, wall_ns: int, thread_ns: int) -> None:
        self._wall_ns += wall_ns
        self._thread_ns += thread_ns
        self._ring.phase(self.slot, self._wall_ns, self._thread_ns)
