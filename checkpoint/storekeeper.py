"""The agent's store side, in a thread of its own: a slow store delays nothing else.

Looks up whole checkpoints, drains what is due, and finishes a job's drains before it is forgotten.
Store errors are reported and tried again; training goes on from memory meanwhile.
"""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock

from msgspec.structs import replace

from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.drain import Drain, Superseded
from holdfast.checkpoint.lookup import LookUp
from holdfast.checkpoint.memory import forget
from holdfast.checkpoint.neighbour import Neighbour, neighbour
from holdfast.checkpoint.slots import SlotFolder
from holdfast.checkpoint.stores import StoreError
from holdfast.kit.backoff import full_jitter
from holdfast.kit.clock import Clock
from holdfast.protocol.messages import Stored

POLL_S = 0.1
RETRY_BASE_S = 0.5
RETRY_CAP_S = 10.0

STALL_S = 30.0
"""A store that has not answered for so long is said to fail. (A call to it is a look at a folder, a
piece of a file, or the flush of one.)"""

FAREWELL_S = 30.0
"""How long a job that is to be forgotten may still write what was due."""


class StoreKeeper:
    """Carries out orders on the store. Its public attributes are read by the agent's loop."""

    def __init__(
        self,
        clock: Clock,
        tell: Callable[[str], None],
        *,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._tell = tell
        self._changed = changed  # called after a round in which something public did
        self._closed = Event()
        self._wake = Event()
        self._lock = Lock()  # of `_given`
        self._given: deque[AgentOrder] = deque()
        self._order: AgentOrder | None = None
        self._drain: Drain | None = None
        self._farewell_until_s: float | None = None
        self._look_up: LookUp | None = None  # of the order, done or under way
        self._neighbour: Neighbour | None = None  # of the attempt
        self._moved_s: float | None = None  # when the store last answered; None: nothing is asked
        self._saving = False  # a snapshot that was ordered is on its way to the store
        self._waits = full_jitter(base_s=RETRY_BASE_S, cap_s=RETRY_CAP_S)
        self.settled_id = 0  # last order whose `forget_job` is carried out
        self._error = ""

    @property
    def error(self) -> str:
        """Why nothing is read from the store or written there; "" where that is not so."""
        moved_s, order = self._moved_s, self._order
        if moved_s is None or order is None or self._clock.monotonic_s() - moved_s < STALL_S:
            return self._error
        return (
            f"store: {order.store_url} has not answered for {STALL_S:g} s. See that its file "
            "system answers on this node; it is waited for."
        )

    @property
    def persisted_step(self) -> int | None:
        return self._drain.persisted_step if self._drain else None

    @property
    def skipped(self) -> int:
        return self._drain.skipped if self._drain else 0

    @property
    def skipped_why(self) -> str:
        return self._drain.skipped_why if self._drain else ""

    @property
    def shared(self) -> bool | None:
        """Whether what the neighbour's node wrote is seen here; None: not known."""
        return self._neighbour.seen if self._neighbour else None

    @property
    def missing(self) -> str:
        """What of the neighbour's node is not seen here."""
        return self._neighbour.missing if self._neighbour else ""

    @property
    def stored(self) -> tuple[Stored, ...]:
        """Whole checkpoints, as far as they have been found for the order with `settled_id`."""
        return self._look_up.found if self._look_up else ()

    @property
    def damaged(self) -> tuple[Stored, ...]:
        """Checkpoints that are there, and cannot be believed."""
        return self._look_up.damaged if self._look_up else ()

    @property
    def looked(self) -> bool:
        """The look-up has come to its end: there is no other."""
        return self._look_up is not None and self._look_up.done

    def give(self, order: AgentOrder) -> None:
        """Do this from now on; what an older epoch was writing is given up.

        An order to forget a job is always carried out, and one of which ranks have left something;
        of others only the newest.
        """
        with self._lock:
            if self._given and _replaces(order, self._given[-1]):
                self._given.pop()
            self._given.append(order)
        self._wake.set()

    def close(self) -> None:
        self._closed.set()
        self._wake.set()

    def run(self) -> None:
        """The thread: one round after another until closed."""
        while not self._closed.is_set():
            before, self._moved_s = self._public(), self._clock.monotonic_s()
            wait_s = self._round()
            self._moved_s = None
            if self._public() != before:
                self._changed()
            self._wake.wait(wait_s)
            self._wake.clear()

    def _public(self) -> tuple[object, ...]:
        found = self.stored, self.damaged, self.looked
        return self.settled_id, self.error, self.persisted_step, self.skipped, self.shared, *found

    def _round(self) -> float:
        """Do what there is to do; how long to wait then, in seconds."""
        try:
            self._settle()
            if self._look_up and not self._look_up.done:
                self._look_up.advance(self._go_on)
            if self._neighbour:
                self._neighbour.advance()
            if self._drain:
                self._drain.advance()
                self._look_again(self._drain)
        except Superseded as reason:
            self._tell(f"writing to the store has ended: {reason}")
            self._drain = None
        except StoreError as error:
            self._error = str(error)
            return next(self._waits)
        except Exception as error:  # noqa: BLE001 - this thread must not end in silence
            self._error = f"{type(error).__name__}: {error}"
            return next(self._waits)
        if self._error:
            self._error = ""
            self._waits = full_jitter(base_s=RETRY_BASE_S, cap_s=RETRY_CAP_S)
        return POLL_S

    def _settle(self) -> None:
        """Take what was ordered, a `forget_job` once that job has written what was due."""
        while True:
            with self._lock:
                if not self._given or self._has_to_finish(self._given[0]):
                    return
                order = self._given.popleft()
            try:
                self._take(order)
            except Exception:
                with self._lock:
                    self._given.appendleft(order)
                raise

    def _take(self, order: AgentOrder) -> None:
        last = self._order
        same = last is not None and (last.job, last.epoch) == (order.job, order.epoch)
        if order.forget_job:
            for one in (last, order):
                if one and one.job == order.forget_job:
                    forget(one.slots)
        # Without ranks they have ended, and the same drain goes on with what they left.
        changed = last is None or _task(last) != _task(order)
        if order.forget_job or not same or (order.ranks and changed):
            self._drain = self._new_drain(order)
            self._neighbour = neighbour(order, self._clock)
        if order.save is not None and not (same and last and last.save == order.save):
            self._drain = self._new_save(order, order.save)
            self._saving = self._drain is not None
            self._error = ""  # what it meets is told anew
        self._order = order
        self._farewell_until_s = None
        self._look_up = LookUp(order, self._tell) if order.look_up_store else None
        self.settled_id = order.id

    def _has_to_finish(self, order: AgentOrder) -> bool:
        if self._order is None or self._order.job != order.forget_job or self._drain is None:
            return False
        if self._farewell_until_s is None:
            self._farewell_until_s = self._clock.monotonic_s() + FAREWELL_S
        if self._drain.idle:
            return False
        if self._clock.monotonic_s() < self._farewell_until_s:
            return True
        self._tell(f"job {order.forget_job} is forgotten before all that was due was written")
        return False

    def _new_drain(self, order: AgentOrder) -> Drain | None:
        if not (order.store_url and order.store_interval_steps and order.ranks):
            return None
        return Drain(order, tell=self._tell, go_on=self._go_on)

    def _new_save(self, order: AgentOrder, save: Stored) -> Drain | None:
        """The drain of this snapshot, as far as it is here; None where it is not."""
        folders = {rank: SlotFolder(Path(folder)) for rank, folder in order.slots.items()}
        held = {r: folder.find(step=save.step, epoch=save.epoch) for r, folder in folders.items()}
        seals = {rank: found[1] for rank, found in held.items() if found}
        if not order.store_url or not seals:
            return None
        world_size = next(iter(seals.values())).world_size
        parts = replace(order, ranks=tuple(seals), epoch=save.epoch, world_size=world_size)
        return Drain(
            parts, tell=self._tell, go_on=self._go_on, only=save.step, fence_epoch=order.epoch
        )

    def _look_again(self, drain: Drain) -> None:
        """Once a snapshot that was ordered is written, whoever asked what there is hears of it."""
        if self._saving and drain.done and self._order is not None:
            self._saving = False
            self._look_up = LookUp(self._order, self._tell) if self._order.look_up_store else None

    def _go_on(self) -> None:
        """The store has answered; raise `Superseded` where what is written is no longer wanted."""
        self._moved_s = self._clock.monotonic_s()
        if self._closed.is_set():
            raise Superseded("the agent ends")
        with self._lock:
            order, given = self._order, next(iter(self._given), None)
        if given is None or order is None or given.forget_job == order.job:
            return
        if (given.job, given.epoch) != (order.job, order.epoch):
            raise Superseded(f"a new attempt of job {given.job} has begun")


def _replaces(new: AgentOrder, old: AgentOrder) -> bool:
    """Whether `old`, which has not been taken yet, need not be.

    It must be where its ranks have ended since: its drain is the one that writes what they left.
    """
    same = (new.job, new.epoch) == (old.job, old.epoch) or new.forget_job == old.job
    return not (old.forget_job or (same and old.ranks and not new.ranks))


def _task(order: AgentOrder) -> tuple[object, ...]:
    """What makes a drain another drain."""
    return (
        order.job,
        order.epoch,
        order.ranks,
        order.world_size,
        order.store_url,
        order.store_interval_steps,
        order.retention,
    )
