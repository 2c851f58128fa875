"""The agent's store side, in a thread of its own: a slow store delays nothing else.

Looks up whole checkpoints, uploads what is due, and ends a job's uploads before it is forgotten.
Store errors are reported and tried again; training goes on from memory meanwhile.
"""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock

from msgspec.structs import replace

from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.fence import Superseded
from holdfast.checkpoint.lookup import LookUp
from holdfast.checkpoint.memory import forget
from holdfast.checkpoint.neighbour import Neighbour, neighbour
from holdfast.checkpoint.pace import Pace
from holdfast.checkpoint.progress import Progress
from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.stores import Store, StoreError
from holdfast.checkpoint.sweeping import Sweeper
from holdfast.checkpoint.timed_store import Answers, Timed
from holdfast.checkpoint.upload import Upload
from holdfast.kit.backoff import full_jitter
from holdfast.kit.clock import Clock
from holdfast.protocol.messages import Stored, Unlike

POLL_S = 0.1
RETRY_BASE_S = 0.5
RETRY_CAP_S = 10.0

FAREWELL_S = 30.0
"""How long a job that is to be forgotten may still write what was due."""


class StoreKeeper:
    """Carries out orders on the store. Its public attributes are read by the agent's loop."""

    def __init__(
        self,
        clock: Clock,
        tell: Callable[[str], None],
        pace: Pace,
        *,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._tell = tell
        self._pace = pace
        self._changed = changed  # called after a round in which something public did
        self._closed = Event()
        self._wake = Event()
        self._lock = Lock()  # of `_given`
        self._given: deque[AgentOrder] = deque()
        self._order: AgentOrder | None = None
        self._upload: Upload | None = None
        self._farewell_until_s: float | None = None
        self._look_up: LookUp | None = None  # of the order, done or under way
        self._neighbour: Neighbour | None = None  # of the attempt
        self._answers = Answers(clock)
        self.sweeper = Sweeper(clock, tell)
        self._saving = False  # a snapshot that was ordered is on its way to the store
        self._progress = Progress(clock, self._answers)
        self._waits = full_jitter(base_s=RETRY_BASE_S, cap_s=RETRY_CAP_S)
        self.settled_id = 0  # last order whose `forget_job` is carried out
        self._error = ""

    @property
    def error(self) -> str:
        """Why nothing is read from the store or written there; "" where that is not so."""
        order = self._order
        if order is None or not self._answers.overdue:
            return self._error
        return (
            f"store: {order.store_url} has not answered for {self._answers.patience_s:g} s. See "
            "that its file system answers on this node; it is waited for."
        )

    @property
    def undeleted(self) -> str:
        """Why the order's store does not let go of old checkpoints; "" where it does."""
        return self.sweeper.undeleted(self._order.store_url) if self._order else ""

    @property
    def swept(self) -> bool:
        """Whether the last sweep of the order's store deleted all that it should."""
        return self._order is not None and self.sweeper.swept(self._order.store_url)

    @property
    def saved_bytes(self) -> int:
        """What the store has taken of a snapshot that was ordered, and since: told now and then."""
        return self._progress.told_bytes

    @property
    def persisted_step(self) -> int | None:
        return self._upload.persisted_step if self._upload else None

    @property
    def skipped(self) -> int:
        return self._upload.skipped if self._upload else 0

    @property
    def skipped_why(self) -> str:
        return self._upload.skipped_why if self._upload else ""

    @property
    def unlike(self) -> Unlike | None:
        """Ranks that do not hold any more what they declared to hold alike."""
        return self._upload.unlike if self._upload else None

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
        self.sweeper.close()
        self._wake.set()

    def run(self) -> None:
        """The thread: one round after another until closed."""
        while not self._closed.is_set():
            before = self._public()
            wait_s = self._round()
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
            if self._upload:
                self._upload.advance()
                self._look_again(self._upload)
        except Superseded as reason:
            self._tell(f"writing to the store has ended: {reason}")
            self._upload = None
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
        # Without ranks they have ended, and the same upload goes on with what they left.
        changed = last is None or _task(last) != _task(order)
        if not same:
            self.sweeper.stop()
        if order.forget_job or not same or (order.ranks and changed):
            self._upload = self._new_upload(order)
            self._neighbour = neighbour(order, self._clock, watched=self._watched)
        if order.save is not None and not (same and last and last.save == order.save):
            self._upload = self._new_save(order, order.save)
            self._saving = self._upload is not None
            self._progress.begin()
            self._error = ""  # what it meets is told anew
        self._order = order
        self._farewell_until_s = None
        self._look_up = self._new_look_up(order)
        self.settled_id = order.id

    def _has_to_finish(self, order: AgentOrder) -> bool:
        if self._order is None or self._order.job != order.forget_job or self._upload is None:
            return False
        if self._farewell_until_s is None:
            self._farewell_until_s = self._clock.monotonic_s() + FAREWELL_S
        if self._upload.idle and self.sweeper.idle:
            return False
        if self._saving and self.error:
            return False  # it had its time, and the job ends without
        if self._clock.monotonic_s() < self._farewell_until_s:
            return True
        self._tell(f"job {order.forget_job} is forgotten before all that was due was written")
        return False

    def _new_upload(self, order: AgentOrder) -> Upload | None:
        if not (order.store_url and order.store_interval_steps and order.ranks):
            return None
        return self._upload_of(order)

    def _upload_of(
        self, order: AgentOrder, *, only: int | None = None, fence_epoch: int | None = None
    ) -> Upload:
        return Upload(
            order,
            tell=self._tell,
            go_on=self._go_on,
            sweep=self.sweeper.give,
            watched=self._watched,
            only=only,
            fence_epoch=fence_epoch,
            pace=self._pace if only is None else None,
        )

    def _watched(self, store: Store) -> Store:
        return Timed(store, self._answers)

    def _new_look_up(self, order: AgentOrder) -> LookUp | None:
        if not order.look_up_store:
            return None
        return LookUp(order, self._tell, watched=self._watched)

    def _new_save(self, order: AgentOrder, save: Stored) -> Upload | None:
        """The upload of this snapshot, as far as it is here; None where it is not."""
        folders = {rank: SlotFolder(Path(folder)) for rank, folder in order.slots.items()}
        held = {r: folder.find(step=save.step, epoch=save.epoch) for r, folder in folders.items()}
        seals = {rank: found[1] for rank, found in held.items() if found}
        if not order.store_url or not seals:
            return None
        world_size = next(iter(seals.values())).world_size
        parts = replace(order, ranks=tuple(seals), epoch=save.epoch, world_size=world_size)
        return self._upload_of(parts, only=save.step, fence_epoch=order.epoch)

    def _look_again(self, upload: Upload) -> None:
        """Once a snapshot that was ordered is written, whoever asked what there is hears of it."""
        if self._saving and upload.done and self._order is not None:
            self._saving = False
            self._look_up = self._new_look_up(self._order)

    def _go_on(self) -> None:
        """Raise `Superseded` where what is written is no longer wanted."""
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

    It must be where its ranks have ended since: its upload is the one that writes what they left.
    """
    same = (new.job, new.epoch) == (old.job, old.epoch) or new.forget_job == old.job
    return not (old.forget_job or (same and old.ranks and not new.ranks))


def _task(order: AgentOrder) -> tuple[object, ...]:
    """What makes an upload another upload."""
    return (
        order.job,
        order.epoch,
        order.ranks,
        order.world_size,
        order.store_url,
        order.store_interval_steps,
        order.retention,
        order.keep_every_steps,
    )
