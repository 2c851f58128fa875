"""The side of copies that sends them: this node's snapshots, as they come due. Used by agents.

Must not load torch, nor hold a snapshot's lock longer than it takes to send it.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from threading import Event

from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.pace import Pace
from holdfast.checkpoint.peers import Refused, key_of, send
from holdfast.checkpoint.rotation import due
from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.slots import why_not
from holdfast.protocol.messages import Peer

RETRY_S = 2.0
"""After one that could not be sent."""


class Sender:
    """Sends what is due of this node's ranks to the peer of the order, in a thread of its own."""

    def __init__(self, pace: Pace, tell: Callable[[str], None]) -> None:
        self._pace = pace
        self._tell = tell
        self._order: AgentOrder | None = None
        self._last: tuple[int, int] = (-1, -1)

    def give(self, order: AgentOrder) -> None:
        """Follow this order from the next snapshot on."""
        self._order = order

    def run(self, closed: Event, poll_s: float) -> None:
        """The thread: until closed."""
        while not closed.wait(poll_s):
            order = self._order
            if order is None or order.peer is None or not order.ranks:
                continue
            try:
                self._advance(order, order.peer)
            except (OSError, Refused) as error:
                self._tell(f"no copy on {order.peer.address}: {error}")
                closed.wait(RETRY_S)

    def _advance(self, order: AgentOrder, peer: Peer) -> None:
        """All ranks of the newest step that is due and that they all have."""
        folders = {rank: SlotFolder(Path(order.slots[rank])) for rank in order.ranks}
        sealed = [
            {seal.step for _, seal in folder.sealed() if seal.epoch == order.epoch}
            for folder in folders.values()
        ]
        every, (_, last) = order.peer_interval_steps, self._last
        after = last if self._last[0] == order.epoch else -1
        steps = (step for step in set.intersection(*sealed) if due(step, every) and step > after)
        step = max(steps, default=None)
        if step is None:
            return
        for folder in folders.values():
            if not self._send(order, peer, folder, step):
                return
        self._last = (order.epoch, step)
        self._note(folders.values(), order.epoch, step)

    def _note(self, folders: Iterable[SlotFolder], epoch: int, step: int) -> None:
        """Where there is no room for the word, what is there is not sent again for it."""
        try:
            for folder in folders:
                folder.put_copied(epoch=epoch, step=step)
        except OSError as error:
            self._tell(f"that step {step} was copied could not be noted: {why_not(error)}")

    def _send(self, order: AgentOrder, peer: Peer, folder: SlotFolder, step: int) -> bool:
        """Whether it is there; not where its rank is about to write over it."""
        found = folder.find(step=step, epoch=order.epoch)
        if found is None:
            return False
        with found[0].locked(exclusive=False) as fd:
            if fd is None or found[0].seal() != found[1]:
                return False
            whole, key = folder.copied(), key_of(order.store_url)
            self._pace.carry_out(partial(send, peer, key, *found, fd, whole=whole))
        return True
