"""Whether nodes of a job see the same store: each leaves a token there, and looks for its
neighbour's.

Used by the agent's store thread at the start of an attempt. A ring is enough: where nodes have
different folders at one path, somebody's neighbour has another one. Must not keep a checkpoint
from being written, so an error of the store is here only a token that was not seen.
"""

from collections.abc import Callable
from contextlib import suppress

from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.layout import token_name
from holdfast.checkpoint.stores import NotStored, Store, StoreError, open_store
from holdfast.kit.clock import Clock

LATE_S = 90.0
"""From one's own token on until the neighbour's is said not to be seen. (NFS may show for 60 s that
a file is not there, acdirmax of nfs(5), and nodes begin an attempt seconds apart.)"""

FIRST_LOOK_S = 1.0
LONGEST_WAIT_S = 30.0
"""Between looks, each twice as late as the one before."""


class Neighbour:
    """Of one attempt. `seen`: None while it is not known. `missing`: what was not seen, then."""

    def __init__(
        self,
        order: AgentOrder,
        clock: Clock,
        *,
        watched: Callable[[Store], Store] = lambda store: store,
    ) -> None:
        first = min(order.ranks)
        self._order = order
        self._clock = clock
        self._watched = watched
        self._own = token_name(first)
        self._rank = (first - len(order.ranks)) % order.world_size
        self._began_s: float | None = None  # its own token is there since
        self._next_s = 0.0
        self._wait_s = FIRST_LOOK_S
        self.seen: bool | None = None
        self.missing = ""

    def advance(self) -> None:
        """Leave the token, or look once more, where it is time for that. Raises nothing."""
        now = self._clock.monotonic_s()
        if self.seen or now < self._next_s:
            return
        with suppress(StoreError):  # what cannot be written or read is the upload's to say
            self._look(self._watched(open_store(self._order.store_url)), now)
        self._next_s = now + self._wait_s
        self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)

    def _look(self, store: Store, now: float) -> None:
        if self._began_s is None:
            store.put(self._own, [str(self._order.epoch).encode()])
            self._began_s = now
        if self._is_there(store):
            self.seen, self.missing = True, ""
        elif now - self._began_s >= LATE_S:
            self.seen = False
            self.missing = f"what the node of rank {self._rank} left in {self._order.store_url}"

    def _is_there(self, store: Store) -> bool:
        try:
            said = b"".join(store.get(token_name(self._rank)))
        except NotStored:
            return False
        return said.isdigit() and int(said) >= self._order.epoch


def neighbour(
    order: AgentOrder,
    clock: Clock,
    *,
    watched: Callable[[Store], Store] = lambda store: store,
) -> Neighbour | None:
    """None where there is nobody to look for: one node, or nothing that is stored."""
    stores = order.store_url and order.store_interval_steps
    if not (stores and order.ranks) or len(order.ranks) >= order.world_size:
        return None
    return Neighbour(order, clock, watched=watched)
