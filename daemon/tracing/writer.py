"""A thread that keeps blocks, so that a slow disk or a Redis that is away holds up no heartbeat.

Used by the sampler of spans. What cannot be kept is lost, counted, and said once until it is over.
"""

import queue
import threading
import time
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from holdfast.kit.logs import LazyLogger
from holdfast.traces.block import Block, encode
from holdfast.traces.sinks import Away, Place, Sink, open_sink, size_of

WAITING_BLOCKS = 64
"""For a sink that is slow; then new ones are lost."""
AGAIN_S = 5.0
"""How long a sink that is away is left alone."""
LAST_S = 0.5

Wrote = Callable[[Place, Block, int], None]

_log = LazyLogger()


class Writer:
    """Takes blocks and never waits. `wrote` is told of each that is kept, with its octets, in our
    thread."""

    def __init__(self, url: str, password: str, wrote: Wrote) -> None:
        self._open = partial(open_sink, url, password)
        self._wrote = wrote
        self._sink: Sink | None = None
        self._blocks: queue.Queue[tuple[Place, Block] | None] = queue.Queue(WAITING_BLOCKS)
        self._lost: dict[str, int] = {}  # spans, by job, that no block has told of yet
        self._away, self._until_s = "", 0.0
        self.lost = 0
        self._thread = threading.Thread(target=self._run, name="holdfast-traces", daemon=True)
        self._thread.start()

    @property
    def away(self) -> str:
        """Why nothing is kept now, and how much was lost; "" while all is well."""
        return f"traces are lost, {self.lost:,} spans so far: {self._away}" if self._away else ""

    def put(self, place: Place, block: Block) -> None:
        try:
            self._blocks.put_nowait((place, block))
        except queue.Full:
            self._lose(place, block)

    def close(self) -> None:
        """Write what is there, if that does not take long."""
        try:
            self._blocks.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(LAST_S)

    def _run(self) -> None:
        while (taken := self._blocks.get()) is not None:
            place, block = taken
            try:
                self._keep(place, block)
            except Away as why:
                self._lose(place, block)
                self._say(str(why))
            except Exception as error:  # noqa: BLE001 a thread that ends would lose all that comes
                self._lose(place, block)
                self._say(f"{type(error).__name__}, a defect of Holdfast's daemon: {error}")

    def _keep(self, place: Place, block: Block) -> None:
        if time.monotonic() < self._until_s:
            self._lose(place, block)
            return
        if self._sink is None:
            self._sink = self._open()
        lost = self._lost.get(place.job, 0)
        data = encode(replace(block, dropped=block.dropped + lost))
        self._sink.put(place, data)
        self._lost.pop(place.job, None)
        if self._away:
            _log.info("traces are kept again", where=self._sink.named, lost_spans=self.lost)
            self._away = ""
        self._wrote(place, block, len(data))

    def _lose(self, place: Place, block: Block) -> None:
        self.lost += size_of(block)
        self._lost[place.job] = self._lost.get(place.job, 0) + size_of(block)

    def _say(self, why: str) -> None:
        self._until_s = time.monotonic() + AGAIN_S
        if not self._away:
            _log.warning("traces are lost", why=why, fix="Training goes on; see docs/traces.md")
        self._away = why
