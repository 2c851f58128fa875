"""Keeps a copy of a collection of an API server, through whatever happens to the server.

Made by whoever needs to see all of a kind: nodes, pods, jobs. Lists in pages, then watches; after
a loss it goes on from what the server has promised, and where it cannot, it lists again and tells
what went meanwhile. Waits between tries with full jitter. Must not guess: while there is no server
the copy stays as it is, and `away` says so.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing

from holdfast.kit.backoff import full_jitter
from holdfast.kit.logs import LazyLogger
from holdfast.kubeapi.client import Client, Object
from holdfast.kubeapi.errors import (
    ApiError,
    Forbidden,
    Silent,
    TooMany,
    Unauthorized,
    Unreachable,
)
from holdfast.kubeapi.mirror import (
    Change,
    Changed,
    Field,
    Mirror,
    Removed,
    Synced,
)

__all__ = ["Change", "Changed", "Reflector", "Removed", "Synced"]

PAGE = 100
"""Objects of a list that are asked for at once: 500 were 8 MiB more for 2,000 nodes, never given
back, and a longer turn of the event loop.
"""
QUIET_S = 75.0
"""Servers send a bookmark a minute after the last, give or take."""
LASTING_S = 300
WAIT_BASE_S = 0.2
WAIT_CAP_S = 10.0

_log = LazyLogger()


class Reflector:
    """The collection at `path`, as far as `query` (`labelSelector=`, `fieldSelector=`) selects.

    `store`: objects by key (NAMESPACE/NAME, or NAME), as JSON without `managedFields`, and without
    the fields `without`, or what `mirror` keeps of them; nobody else changes them. `lists` and
    `watches` count how often each was begun.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        page: int = PAGE,
        quiet_s: float = QUIET_S,
        wait_cap_s: float = WAIT_CAP_S,
        without: Sequence[Field] = (),
        mirror: Mirror | None = None,
        **query: object,
    ) -> None:
        self._client = client
        self._path = path
        self._page = page
        self._quiet_s = quiet_s
        self._wait_cap_s = wait_cap_s
        self._query = query
        self._mirror = Mirror(without) if mirror is None else mirror
        self._listed = False
        self._away = "not listed yet"
        self._waits = self._from_short()
        self.lists = 0
        self.watches = 0

    @property
    def store(self) -> dict[str, Object]:
        return self._mirror.store

    @property
    def promised(self) -> int:
        """The resource version up to which `store` misses nothing; 0 before the first list."""
        return self._mirror.promised

    @property
    def told(self) -> int:
        """The resource version of what was told last, which pages of a list do not raise: they come
        by name.
        """
        return self._mirror.told

    def away(self) -> str:
        """Why the copy may be old, in a sentence; "" while the server is heard."""
        return self._away

    async def changes(self) -> AsyncGenerator[Change, None]:
        """Each change of the store, after it was made, without end; `Synced` after each list.

        An object is `Changed` any number of times and then `Removed` once; another of the same
        name (another UID) begins after that. For one reader.
        """
        while True:
            wait_s = 0.0
            try:
                if not self._listed:
                    async for change in self._list():
                        yield change
                async with aclosing(self._watch()) as changes:
                    async for change in changes:
                        yield change
            except ApiError as error:
                self._failed(error)
                wait_s = error.retry_after_s or 0.0
            await asyncio.sleep(max(next(self._waits), wait_s))

    async def _list(self) -> AsyncGenerator[Change, None]:
        self.lists += 1
        listed: set[str] = set()
        async for page in self._client.pages(self._path, limit=self._page, **self._query):
            for change in self._mirror.page(page["items"] or (), listed):
                yield change
        self._listed, self._away = True, ""
        for change in self._mirror.end(listed, page):
            yield change

    async def _watch(self) -> AsyncGenerator[Change, None]:
        """From what was promised, to the watch's end. News ends the waiting between tries; a list
        does not, for a server may have a list and then no watch, again and again.
        """
        self.watches += 1
        before = self._mirror.promised
        events = self._client.watch(
            self._path,
            since=str(before),
            quiet_s=self._quiet_s,
            lasting_s=LASTING_S,
            **self._query,
        )
        async with aclosing(events):
            async for event in events:
                self._away = ""
                changes = list(self._mirror.event(event.type, event.object))
                if changes or self._mirror.promised > before:
                    self._waits = self._from_short()
                for change in changes:
                    yield change

    def _failed(self, error: ApiError) -> None:
        """A watch goes on after what says nothing of the server's memory, else a list is due. One
        that has just started knows no roles yet, and forbids all.

        Silence is not among these: a server whose store was set back stays silent until its
        versions have come to ours.
        """
        lost = isinstance(error, Unreachable | TooMany | Unauthorized | Forbidden)
        self._listed = self._listed and lost and not isinstance(error, Silent)
        if self._away != str(error):
            _log.warning("cannot see", path=self._path, why=str(error))
        self._away = str(error)

    def _from_short(self) -> Iterator[float]:
        return full_jitter(base_s=min(WAIT_BASE_S, self._wait_cap_s), cap_s=self._wait_cap_s)
