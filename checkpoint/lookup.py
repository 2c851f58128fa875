"""One look at what a store holds, told as it goes; done only once nothing is left to be found.

Used by the agent's store thread, which calls `advance` until it is done; read by the agent's loop.
"""

from collections.abc import Callable, Iterator
from itertools import chain

from holdfast.checkpoint import earlier
from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.fence import raise_fence
from holdfast.checkpoint.fetch import Absent, NotBelieved, Unreadable, whole
from holdfast.checkpoint.stores import Store, StoreError, TemporaryStoreError, open_store
from holdfast.protocol.messages import Stored

TRIES = 3
"""Looks at a checkpoint that cannot be read, a few seconds apart in all, before an older one may
take its place, and at a store that takes no more. (A file system that is away fails at all of them,
and at the list.)"""


class LookUp:
    """Of one order. `found` grows, newest first; `damaged` are there and cannot be believed."""

    def __init__(
        self,
        order: AgentOrder,
        tell: Callable[[str], None],
        *,
        watched: Callable[[Store], Store] = lambda store: store,
    ) -> None:
        self._order = order
        self._tell = tell
        self._watched = watched
        self._tries = 0
        self.found: tuple[Stored, ...] = ()
        self.damaged: tuple[Stored, ...] = ()
        self.done = False

    def advance(self, go_on: Callable[[], None]) -> None:
        """Look at all there is. Raises `StoreError` (call again), or what `go_on` does."""
        self._tries += 1
        if self._order.store_url:
            self._list(go_on)
        self.done = True

    def _fence(self, store: Store) -> None:
        """A store that takes no more may hold what is looked for: it is read all the same."""
        try:
            raise_fence(store, self._order.epoch)
        except StoreError as error:
            if self._tries < TRIES:
                raise
            self._tell(f"older attempts can still write to the store: {error}")

    def _list(self, go_on: Callable[[], None]) -> None:
        store = self._watched(open_store(self._order.store_url))
        self._fence(store)
        found: list[Stored] = []
        missed: list[NotBelieved] = []
        for one in chain(whole(store, go_on=go_on), self._earlier(found, go_on)):
            if isinstance(one, NotBelieved):
                self._tell(f"checkpoint refused: {one.why}")
                missed.append(one)
            else:
                found.append(one)
                self.found = tuple(dict.fromkeys((*found, *self.found)))
        unreadable = [one.why for one in missed if isinstance(one.why, Unreadable)]
        if unreadable and (self._tries < TRIES or not found):
            raise TemporaryStoreError(str(unreadable[0]))
        self.damaged = tuple(one.point for one in missed if not isinstance(one.why, Absent))
        self.found = tuple(dict.fromkeys(found))

    def _earlier(
        self, own: list[Stored], go_on: Callable[[], None]
    ) -> Iterator[Stored | NotBelieved]:
        """What may be begun from. Where there is none a job that has not saved anything waits."""
        url = self._order.begin_from
        try:
            if url:
                yield from map(earlier.named, earlier.look(url, watched=self._watched, go_on=go_on))
        except StoreError:
            if not own:
                raise
