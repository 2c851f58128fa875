"""The job's journal entries as they come, read from the driver by a thread of its own.

Made by `cli.run.follow`. Goes on after the driver was restarted, from the entry after the last one.
"""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.cli import sse
from holdfast.cli.client import Client, Stream, path
from holdfast.cli.errors import Stopped
from holdfast.kit.backoff import full_jitter


class Events:
    """A queue that is filled from the driver's server-sent events."""

    def __init__(self, find_driver: Callable[[], Client | None], job: str) -> None:
        self._find_driver = find_driver
        self._job = job
        self._queue: queue.Queue[dict[str, Any]] = queue.Queue()
        self._ending = threading.Event()
        self._after = 0
        self._stream: Stream | None = None
        threading.Thread(target=self._read, name="events", daemon=True).start()

    def take(self, timeout_s: float) -> list[dict[str, Any]]:
        """Entries that came, in order; waits at most `timeout_s` for the first."""
        entries: list[dict[str, Any]] = []
        with contextlib.suppress(queue.Empty):
            entries.append(self._queue.get(timeout=timeout_s))
            while True:
                entries.append(self._queue.get_nowait())
        return entries

    def close(self) -> None:
        """End the thread, so that the driver has no reader to wait for when it ends."""
        self._ending.set()
        if self._stream is not None:
            self._stream.close()

    def _read(self) -> None:
        waits: Iterator[float] = full_jitter(base_s=0.05, cap_s=1.0)
        while not self._ending.is_set():
            client = self._find_driver()
            if client is not None:
                with contextlib.suppress(Stopped):  # the driver is being restarted: ask again
                    self._follow(client)
            self._ending.wait(next(waits))

    def _follow(self, client: Client) -> None:
        headers = {"Last-Event-ID": str(self._after)}
        self._stream = client.stream(path("events"), headers=headers, job=self._job)
        for entry in sse.events(self._stream):
            self._after = int(entry["sequence"])
            self._queue.put(entry)
            if self._ending.is_set():
                return
