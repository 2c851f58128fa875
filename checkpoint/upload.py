"""Writing one epoch's due snapshots to the store, together with the other nodes' agents.

Used by the agent's store thread. The agent of rank 0 leads: it begins a step when it has committed
or given up the one before, so that all agents write the same steps however fast each of them is.
They meet in the store alone. Must not commit once a newer epoch has begun, nor delete: `sweeping`.
"""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path

from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.fence import check_fence
from holdfast.checkpoint.layout import (
    BEGIN,
    MANIFEST,
    folder_name,
    lost_name,
    parse_folder,
    part_name,
)
from holdfast.checkpoint.manifest import (
    BadManifest,
    ReplicasDiffer,
    decode_part,
    encode,
    merge,
)
from holdfast.checkpoint.pace import Pace
from holdfast.checkpoint.replicas import alike, unlike
from holdfast.checkpoint.rotation import due
from holdfast.checkpoint.shards import Damaged, write_part
from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.slots import Slot, why_not
from holdfast.checkpoint.stores import NotStored, Store, open_store
from holdfast.checkpoint.sweeping import Committed
from holdfast.checkpoint.words import Seal
from holdfast.protocol.counts import plural
from holdfast.protocol.messages import Unlike

READERS = 16
"""Parts that the leader reads at once: a store that is slow to answer is so for each."""

MOST_ROUNDS = 50
"""Between two looks at whether all parts are there; 5 s."""

Tell = Callable[[str], None]
"""Says a note to the executor, and in the log."""


PATIENCE_INTERVALS = 3
"""So many checkpoints come due before it is said that other nodes' parts of one are missing."""


class Upload:
    """The uploads of one job and epoch on one node.

    `sweep` is told of each commit, `watched` wraps the store. `only`: of this one step, due or not,
    which all agents were told; none has to begin it. What an older epoch left is saved so in a
    newer one, `fence_epoch`.
    """

    def __init__(
        self,
        order: AgentOrder,
        *,
        tell: Tell,
        go_on: Callable[[], None],
        sweep: Callable[[Committed], None] = lambda _: None,
        watched: Callable[[Store], Store] = lambda store: store,
        only: int | None = None,
        fence_epoch: int | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._order = order
        self._only = only
        self._fence_epoch = order.epoch if fence_epoch is None else fence_epoch
        self._tell = tell
        self._go_on = go_on
        self._sweep = sweep
        self._watched = watched
        self._folders = {rank: SlotFolder(Path(order.slots[rank])) for rank in order.ranks}
        self._begun: int | None = None  # step that the leader has begun and not ended
        self._written = False  # this node's parts of that step are in the store
        self._told_absent = False
        self._pace = pace
        self._there: dict[str, bool] = {}  # what was in the begun step's folder when asked for
        self._rounds = self._next_look = 0  # since this node has written that step
        self._last = -1  # last step that is dealt with
        self.persisted_step: int | None = None
        self.skipped = 0
        self.skipped_why = ""  # the last one
        self._alike: frozenset[str] = frozenset()  # what all ranks held alike in the last commit
        self.unlike: Unlike | None = None  # the first time that they did not any more

    def advance(self) -> None:
        """Take the next step, if there is one. Raises `StoreError` (call again) or `Superseded`."""
        if self._begun is None:
            self._begin()
        if self._only is None:
            self._pass_over()
        if self._begun is not None and not self._written:
            self._written = self._write(self._begun)
        if self._begun is not None and self._written:
            self._end(self._begun)

    @property
    def done(self) -> bool:
        """The one step that was asked for is dealt with, written or not."""
        return self._only is not None and self._last >= self._only

    @property
    def idle(self) -> bool:
        """Nothing that is due waits for the store."""
        return self._begun is None and (not self._folders or self._newest_due() is None)

    @cached_property
    def _store(self) -> Store:
        return self._watched(open_store(self._order.store_url))

    # ------------------------------------------------------------ beginning

    @property
    def _leads(self) -> bool:
        return 0 in self._order.ranks

    def _seals(self, rank: int) -> dict[int, tuple[Slot, Seal]]:
        """By step, what this rank has sealed in this epoch of this job."""
        order = self._order
        return {
            seal.step: (slot, seal)
            for slot, seal in self._folders[rank].sealed()
            if (seal.job, seal.epoch) == (order.job, order.epoch)
        }

    def _newest_due(self) -> int | None:
        """The newest step that is due, not dealt with, and sealed by all ranks of this node."""
        sealed = [set(self._seals(rank)) for rank in self._folders]
        common = set.intersection(*sealed) if sealed else set()
        every = self._order.store_interval_steps
        return max((s for s in common if due(s, every) and s > self._last), default=None)

    def _begin(self) -> None:
        if self._only is not None:
            self._begun = None if self.done else self._only
        elif self._leads:
            if (step := self._newest_due()) is not None:
                self._check_fence()
                self._store.put(f"{self._folder(step)}/{BEGIN}", [b"{}\n"])
                self._count_passed_over(step)
                self._begun = step
        elif self._folders and self._newest_due() is not None:
            self._begun = self._begun_by_leader()

    def _begun_by_leader(self) -> int | None:
        places = [parse_folder(entry.name) for entry in self._store.entries("") if entry.folder]
        steps = [place[0] for place in places if place and place[1] == self._order.epoch]
        return max((step for step in steps if step > self._last), default=None)

    def _pass_over(self) -> None:
        """Release snapshots that wait for the store in vain: where memory has room for one slot a
        rank would save nothing more."""
        sealed = {rank: self._seals(rank) for rank in self._folders}
        epoch, every = self._order.epoch, self._order.store_interval_steps
        vain = {}
        for rank, seals in sealed.items():
            uploaded = self._folders[rank].uploaded()
            waiting = sorted(s for s in seals if due(s, every) and (epoch, s) > uploaded)
            vain[rank] = list(takewhile(lambda step: self._in_vain(step, sealed), waiting))
        for rank, steps in vain.items():
            if steps:
                self._release(rank, epoch, steps[-1])

    def _in_vain(self, step: int, sealed: Mapping[int, Collection[int]]) -> bool:
        """Whether a later step is being written, or a rank of this node has gone past this one, or
        it is dealt with."""
        later = step <= self._last or (self._begun is not None and step < self._begun)
        without = [rank for rank, seals in sealed.items() if step not in seals]
        return later or any(self._is_past(step, rank, sealed[rank]) for rank in without)

    def _is_past(self, step: int, rank: int, seals: Collection[int]) -> bool:
        """Whether a rank that has no snapshot of this step makes none any more. Two that each wait
        with a step that the other refused would else be released in turn, and never meet.
        """
        refused = self._folders[rank].skipped(self._order.epoch).step
        return refused >= step or max(seals, default=-1) > step

    def _count_passed_over(self, step: int) -> None:
        if self._last < 0:
            return
        passed = (step - self._last) // self._order.store_interval_steps - 1
        if passed > 0:
            self._skip(
                passed,
                f"{plural(passed, 'checkpoint')} before step {step} "
                f"{'was' if passed == 1 else 'were'} not written: the store was still "
                f"busy with step {self._last}",
            )

    def _folder(self, step: int) -> str:
        return folder_name(step, self._order.epoch)

    def _check_fence(self) -> None:
        check_fence(self._store, self._fence_epoch)

    # ------------------------------------------------------------ writing

    def _write(self, step: int) -> bool:
        """Write the parts of this node's ranks; False while one has not sealed the step yet."""
        if self._is_there(step, MANIFEST):
            return True
        with ExitStack() as locks:
            held: list[tuple[Slot, Seal, int]] = []
            for rank in self._folders:
                if self._is_there(step, part_name(rank)):
                    continue
                seals = self._seals(rank)
                if step not in seals:
                    return self._explain_absence(step, rank, max(seals, default=-1))
                slot, seal = seals[step]
                fd = locks.enter_context(slot.locked(exclusive=False))
                if fd is None or slot.seal() != seal:
                    return False
                held.append((slot, seal, fd))
            lost = [seal for slot, seal, fd in held if not self._write_one(slot, seal, fd)]
        if not lost and not self._leads:
            self.persisted_step = step
        return True

    def _is_there(self, step: int, name: str) -> bool:
        """Asked of the store once: only this node writes its parts, and a manifest needs them all.
        (To list the folder takes as long as it has files, on each of thousands of nodes.)
        """
        if name not in self._there:
            try:
                next(self._store.get(f"{self._folder(step)}/{name}"), None)
            except NotStored:
                self._there[name] = False
            else:
                self._there[name] = True
        return self._there[name]

    def _write_one(self, slot: Slot, seal: Seal, fd: int) -> bool:
        try:
            self._put(slot, seal, fd)
        except Damaged as damage:
            slot.break_seal()
            self._give_up(seal.step, seal.rank, str(damage))
            return False
        self._release(seal.rank, seal.epoch, seal.step)
        return True

    def _release(self, rank: int, epoch: int, step: int) -> None:
        """Have the rank write over it. A memory that is full keeps nothing from the store."""
        try:
            self._folders[rank].put_uploaded(epoch=epoch, step=step)
        except OSError as error:  # said again by `_pass_over` once there is room
            self._tell(f"rank {rank}: step {step} stays in memory: {why_not(error)}")

    def _put(self, slot: Slot, seal: Seal, fd: int) -> None:
        if self._pace is None:
            write_part(self._store, slot, seal, fd, go_on=self._go_on)
        else:
            write = partial(write_part, self._store, slot, seal, fd, go_on=self._go_on)
            self._pace.carry_out(write)

    def _explain_absence(self, step: int, rank: int, newest: int) -> bool:
        if newest < step:
            return False
        why = f"rank {rank} had overwritten step {step} when its turn came"
        self._give_up(step, rank, why)
        return True

    def _give_up(self, step: int, rank: int, why: str) -> None:
        self._tell(f"checkpoint of step {step} will not be whole: {why}")
        self._store.put(f"{self._folder(step)}/{lost_name(rank)}", [why.encode()])

    # ------------------------------------------------------------ ending

    def _end(self, step: int) -> None:
        if not self._leads:
            self._deal_with(step)
            return
        if self._waits():
            return
        folder = self._folder(step)
        there = {entry.name for entry in self._store.entries(folder)}
        world = range(self._order.world_size)
        if any(lost_name(rank) in there for rank in world):
            self._skip(1, f"checkpoint of step {step} given up: a rank no longer had it")
            self._deal_with(step)
        elif MANIFEST in there or all(part_name(rank) in there for rank in world):
            if MANIFEST in there or self._commit(step):
                self.persisted_step = step
                self._sweep(self._committed(step))
            self._deal_with(step)
        else:
            self._tell_of_absent(step, [rank for rank in world if part_name(rank) not in there])

    def _waits(self) -> bool:
        """Whether to look later: each look lists a file a rank, so they grow apart, by a quarter of
        what was waited already.
        """
        self._rounds += 1
        if self._rounds < self._next_look:
            return True
        self._next_look = self._rounds + min(MOST_ROUNDS, 1 + self._rounds // 4)
        return False

    def _tell_of_absent(self, step: int, ranks: list[int]) -> None:
        """Once: other nodes are slow, or what they write is not what this node reads."""
        newest, every = self._newest_due(), self._order.store_interval_steps
        if self._told_absent or self._only is not None or newest is None:
            return
        if newest < step + PATIENCE_INTERVALS * every:
            return
        self._told_absent = True
        some = ", ".join(str(rank) for rank in ranks[:8]) + (", …" if len(ranks) > 8 else "")
        self._skip(
            1,
            f"checkpoint of step {step} still lacks what ranks {some} have to write, and training "
            f"is at step {newest}: their nodes are slow, or have another folder at "
            f"{self._order.store_url} than this one. Mount the same there on every node",
        )

    def _skip(self, count: int, why: str) -> None:
        self.skipped += count
        self.skipped_why = why
        self._tell(why)

    def _deal_with(self, step: int) -> None:
        self._last, self._begun, self._written = step, None, False
        self._there, self._rounds, self._next_look = {}, 0, 0

    def _commit(self, step: int) -> bool:
        folder = self._folder(step)
        with ThreadPoolExecutor(READERS, "parts") as readers:
            data = list(
                readers.map(partial(self._read_part, folder), range(self._order.world_size))
            )
        try:
            parts = [decode_part(one) for one in data]
            manifest = merge(self._order.job, parts)
        except BadManifest as error:
            self._skip(1, f"{folder} is not committed: {error}")
            self._compare(error, step)
            return False
        self._alike = alike(parts)
        self._check_fence()
        self._store.put(f"{folder}/{MANIFEST}", [encode(manifest)])
        return True

    def _compare(self, error: BadManifest, step: int) -> None:
        """Keep who differs, where they were alike: once, for from there on they stay different."""
        if isinstance(error, ReplicasDiffer) and self.unlike is None and self.persisted_step:
            since = self.persisted_step
            self.unlike = unlike(error.groups, step=step, before=self._alike, since=since)

    def _committed(self, step: int) -> Committed:
        order = self._order
        return Committed(
            store_url=order.store_url,
            step=step,
            epoch=order.epoch,
            fence_epoch=self._fence_epoch,
            retention=order.retention,
            keep_every_steps=order.keep_every_steps,
        )

    def _read_part(self, folder: str, rank: int) -> bytes:
        self._go_on()
        return b"".join(self._store.get(f"{folder}/{part_name(rank)}"))
