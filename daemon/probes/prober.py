"""Asks the neighbours whether they are there: one TCP handshake each, some times a second.

Run by the daemon's loop, for the neighbours that the driver named. Must not judge an answer, nor
take its own standing still, as on a busy machine, for a neighbour's silence.
"""

import asyncio
import math
import socket
import struct
from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.daemon.probes import half_open
from holdfast.kit.clock import Clock
from holdfast.protocol.messages import Probe

PERIOD_S = 0.25
TIMEOUT_S = 0.5
SILENT_S = 1.0
"""Without an answer for so long it is looked whether the other asks here."""
LOOK_AGAIN_S = 1.0
"""Until that is looked for again: the kernel's table has a row for each connection of the node, and
it is read in the daemon's loop."""
LOOKED_S = PERIOD_S + TIMEOUT_S
"""From one end of a probe to the next at most: what lies further apart is not all looked at."""
_HANG_UP_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER of no time: closing leaves no port in TIME_WAIT."""


class Prober:
    """What each neighbour last answered, with its silence as of when it was last asked."""

    def __init__(self, clock: Clock, port: int) -> None:
        self._clock = clock
        self._own_port = port
        self._port = port
        self._neighbours: dict[str, str] = {}
        self._seen: dict[str, tuple[Probe, float]] = {}
        self._asking: frozenset[str] = frozenset()
        self._looked_s = -math.inf

    def use(self, neighbours: Mapping[str, str], port: int) -> None:
        """Probe these (name to address) from now on; port 0 is the one of this node."""
        self._port = port or self._own_port
        now = self._clock.monotonic_s()
        for node, address in neighbours.items():
            if self._neighbours.get(node) != address:
                self._seen[node] = (Probe(node=node, ok=False), now)
        self._neighbours = dict(neighbours)

    def probes(self) -> tuple[Probe, ...]:
        """Each neighbour's last answer, and how long it has given none of any kind."""
        asking = self._who_asks() if self._misses_one() else frozenset()
        return tuple(
            replace(self._seen[node][0], silent_s=self._silent_s(node), heard=address in asking)
            for node, address in self._neighbours.items()
        )

    def _who_asks(self) -> frozenset[str]:
        now = self._clock.monotonic_s()
        if now - self._looked_s >= LOOK_AGAIN_S:
            self._asking, self._looked_s = half_open.asking(self._own_port), now
        return self._asking

    def _misses_one(self) -> bool:
        return any(self._silent_s(node) > SILENT_S for node in self._neighbours)

    def _silent_s(self, node: str) -> float:
        """Only time in which somebody looked: this process may have stood still."""
        probe, at_s = self._seen[node]
        return probe.silent_s + min(self._clock.monotonic_s() - at_s, LOOKED_S)

    async def run(self) -> None:
        """For ever: all neighbours at once, then a pause."""
        while True:
            pause = asyncio.create_task(asyncio.sleep(PERIOD_S))
            if self._port:
                await asyncio.gather(*map(self._probe, list(self._neighbours.items())))
            await pause

    async def _probe(self, neighbour: tuple[str, str]) -> None:
        node, address = neighbour
        began_s = self._clock.monotonic_s()
        ok, reset = await _shake_hands(address, self._port)
        now = self._clock.monotonic_s()
        if self._neighbours.get(node) != address:
            return
        silent_s = 0.0 if ok or reset else self._silent_s(node)
        rtt_s = now - began_s if ok else None
        self._seen[node] = (
            Probe(node=node, ok=ok, reset=reset, rtt_s=rtt_s, silent_s=silent_s),
            now,
        )


async def _shake_hands(address: str, port: int) -> tuple[bool, bool]:
    """Whether it was answered in time, and whether it was refused.

    An answer that came while this process stood still is one: it counts before the time does.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _HANG_UP_AT_ONCE)
        connect = asyncio.get_running_loop().sock_connect(probe, (address, port))
        attempt = asyncio.ensure_future(connect)
        try:
            await asyncio.wait([attempt], timeout=TIMEOUT_S)
        finally:
            attempt.cancel()  # nothing where it is over
        (ended,) = await asyncio.gather(attempt, return_exceptions=True)
    return ended is None, isinstance(ended, ConnectionRefusedError)
