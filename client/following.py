"""The journal as it grows: every entry once, in order, over lost connections and new drivers."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from holdfast.cli.client import PREFIX, Client, Problem, Stream
from holdfast.cli.errors import Stopped
from holdfast.cli.sse import events
from holdfast.client.errors import HoldfastError, NotReachable, of

SILENT_S = 60.0
"""Four of the driver's signs of life: a stream that says nothing for so long has lost its other
end."""
PAUSE_S = 0.5
"""Between two tries to connect anew."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the journal: what happened, what was decided, and why."""

    sequence: int
    at: str
    now_s: float
    kind: str
    why: str
    jobs: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    incident: int | None = None
    cause: int | None = None
    effects: tuple[str, ...] = ()
    event: dict[str, Any] = {}


class Following:
    """An iterator over events; `close`, from any thread, ends it.

    `over` is asked behind an event whether it was the last. Raises `HoldfastError` once nobody has
    answered for `away_s`, or where the driver refuses.
    """

    def __init__(
        self,
        found: Callable[[], Client],
        *,
        job: str | None,
        after: int,
        away_s: float,
        over: Callable[[Event], bool],
    ) -> None:
        self._found, self._job, self._over = found, job, over
        self._last, self._away_s, self._heard_s = after, away_s, time.monotonic()
        self._closed = threading.Event()
        self._stream: Stream | None = None
        self._events = self._all()

    def __iter__(self) -> Iterator[Event]:
        return self._events

    def __next__(self) -> Event:
        return next(self._events)

    def close(self) -> None:
        """End it, whoever waits in it."""
        self._closed.set()
        if self._stream is not None:
            self._stream.close()

    def _all(self) -> Iterator[Event]:
        while not self._closed.is_set():
            try:
                for event in self._connected():
                    yield event
                    if self._over(event):
                        return
            except Stopped as stopped:
                if isinstance(stopped, Problem) and stopped.status != 503:
                    raise of(stopped) from stopped
                self._bear(of(stopped))
            except NotReachable as error:
                self._bear(error)
            self._closed.wait(PAUSE_S)

    def _bear(self, lost: HoldfastError) -> None:
        """Nobody answers, for now. Raises `lost` once that has been so for long."""
        if not self._closed.is_set() and time.monotonic() - self._heard_s > self._away_s:
            raise lost

    def _connected(self) -> Iterator[Event]:
        """From behind the last event, until the connection is lost."""
        headers = {"Last-Event-ID": str(self._last)}
        where = f"{PREFIX}/events"
        stream = self._found().stream(where, headers=headers, timeout_s=SILENT_S, job=self._job)
        self._stream, self._heard_s = stream, time.monotonic()
        if self._closed.is_set():  # by another thread, which saw no stream yet
            stream.close()
        for told in events(stream):
            event, self._heard_s = msgspec.convert(told, Event), time.monotonic()
            if event.sequence > self._last:
                self._last = event.sequence
                yield event
