"""Asks the neighbours whether they are there: one TCP handshake each, some times a second.

Run by the daemon's loop, for the neighbours that the driver named. Must not judge an answer.
"""

import asyncio
import socket
import struct
from collections.abc import Mapping

from holdfast.kit.clock import Clock
from holdfast.protocol.messages import Probe

PERIOD_S = 0.25
TIMEOUT_S = 0.5
_HANG_UP_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER of no time: closing leaves no port in TIME_WAIT."""


class Prober:
    """What each neighbour last answered."""

    def __init__(self, clock: Clock, port: int) -> None:
        self._clock = clock
        self._own_port = port
        self._port = port
        self._neighbours: dict[str, str] = {}
        self._seen: dict[str, tuple[Probe, float]] = {}

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
        now = self._clock.monotonic_s()
        return tuple(
            Probe(
                node=probe.node,
                ok=probe.ok,
                rtt_s=probe.rtt_s,
                reset=probe.reset,
                silent_s=now - answered_s,
            )
            for node in self._neighbours
            for probe, answered_s in (self._seen[node],)
        )

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
        ok = reset = False
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await _shake_hands(address, self._port)
            ok = True
        except ConnectionRefusedError:
            reset = True
        except OSError:
            pass  # no answer, or no way there: silence (TimeoutError is one of these)
        now = self._clock.monotonic_s()
        if self._neighbours.get(node) != address:
            return
        answered_s = now if ok or reset else self._seen[node][1]
        rtt_s = now - began_s if ok else None
        self._seen[node] = (Probe(node=node, ok=ok, reset=reset, rtt_s=rtt_s), answered_s)


async def _shake_hands(address: str, port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _HANG_UP_AT_ONCE)
        await asyncio.get_running_loop().sock_connect(probe, (address, port))
