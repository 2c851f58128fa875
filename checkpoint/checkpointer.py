"""A rank's two verbs: save a state to memory, restore one from memory or the store.

Made by a training script with `Checkpointer.from_env()`. A save never stops training: what could
not be saved is counted, logged, and reported by the agent. A restore that cannot be exact raises.
"""

import logging
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

import msgspec
import torch
import xxhash
from msgspec.structs import replace
from torch.optim import Optimizer

from holdfast.checkpoint import peers, reshard, restoring, rng, tree
from holdfast.checkpoint.alone import Alone, CannotBegin
from holdfast.checkpoint.bill import Bill
from holdfast.checkpoint.copying import movable
from holdfast.checkpoint.declared import check_keys, checked_shards
from holdfast.checkpoint.expected import expected_bytes
from holdfast.checkpoint.filling import Area, Claim
from holdfast.checkpoint.layout import (
    PLAN_KEY,
    Layout,
    Shard,
    ShardPlan,
    Spec,
    lay_out,
)
from holdfast.checkpoint.load_state import Fitting
from holdfast.checkpoint.overlap import Overlap
from holdfast.checkpoint.plan import writers
from holdfast.checkpoint.restoring import RestoreFailed, misfit
from holdfast.checkpoint.rotation import FOR_PEERS, SLOTS, due
from holdfast.checkpoint.saved import Saved
from holdfast.checkpoint.settings import Settings, from_environment, of_now, outside
from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.slots import NoRoom, Slot, why_not
from holdfast.checkpoint.stores import open_store
from holdfast.checkpoint.tensors import spec
from holdfast.checkpoint.words import Seal, Skipped
from holdfast.protocol.messages import Restore
from holdfast.protocol.topology import Axis
from holdfast.telemetry import current
from holdfast.telemetry.pauses import during

_LOG = logging.getLogger("holdfast.checkpoint")


class Checkpointer:
    """Saves and restores the state of one rank. Not for use from several threads.

    A state is a nested dict of tensors, JSON values, and objects with `state_dict` (models,
    optimizers, schedulers). The random generators are saved with it. `replicated` names the top
    keys whose tensors are the same on every rank of a data-parallel group: they are then written to
    the store once. Tensors that are neither there nor in `shards` count as this rank's own.
    `overlap` names optimizers that alone write to their parameters and to what they keep for them:
    these are copied while the next forward and backward run.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        store_url: str = "",
        store_interval_steps: int = 50,
        retention: int = 2,
        begin_from: str = "",
        replicated: Collection[str] = (),
        overlap: Optimizer | Collection[Optimizer] = (),
    ) -> None:
        self._follows = settings is None  # the process, from one attempt to the next
        self._settings = settings = settings or outside(
            store_url,
            every_steps=store_interval_steps,
            retention=retention,
            begin_from=begin_from,
        )
        if settings.alone:
            open_store(settings.store_url)
            _LOG.warning("outside Holdfast: saves go to %s alone, not to memory", store_url)
        elif store_url:
            _LOG.warning("store_url is not used: the job's spec says where checkpoints go")
        self._alone: Alone | None = None  # once the ranks have met
        self._replicated = tuple(replicated)
        count = SLOTS + (FOR_PEERS if settings.peer_interval_steps else 0)
        self._folder = SlotFolder(settings.slots, count=count) if settings.slots else None
        self._areas: dict[Slot, Area] = {}
        self._known: tuple[dict[str, Spec], Mapping[str, Shard], Layout] | None = None
        self._tried = 0  # saves outside Holdfast
        self._skips = Skipped(epoch=settings.epoch, count=0, in_a_row=0, why="")
        self._overlap = Overlap(_optimizers(overlap), self._ended)

    @classmethod
    def from_env(
        cls,
        *,
        replicated: Collection[str] = (),
        overlap: Optimizer | Collection[Optimizer] = (),
    ) -> "Checkpointer":
        """The checkpointer of this rank; outside Holdfast one that says so and saves nothing."""
        settings = from_environment()
        if settings.slots is None:
            _LOG.warning("HOLDFAST_SLOTS is not set: nothing is saved outside Holdfast")
        made = cls(settings, replicated=replicated, overlap=overlap)
        made._follows = True
        return made

    @property
    def skipped(self) -> int:
        """Saves that were due and could not be made, each said in the log."""
        return self._skips.count

    def due(self, step: int) -> bool:
        """Whether `save` would save this step; lets a script spare itself gathering the state."""
        settings = self._settings
        intervals = (
            settings.memory_interval_steps,
            settings.store_interval_steps,
            settings.peer_interval_steps,
        )
        saves = self._folder is not None or settings.alone
        return saves and any(due(step, every) for every in intervals)

    @during("saves its state")
    def save(
        self, step: int, state: Mapping[str, Any], *, shards: Mapping[str, Shard] | None = None
    ) -> bool:
        """Snapshot the state after `step` completed steps, if that is due; True if it was saved,
        or is being copied yet (`overlap`).

        `shards` tells of tensors (by their path in the state, joined with dots) where they lie in a
        whole one. Raises `TypeError` for what cannot be saved; a full memory is only counted.
        """
        if self._folder is None:
            return self._outside(step, state, shards or {})
        self._follow()
        if current.recorder is not None:
            current.recorder.saves(step)
        if not self.due(step):
            return False
        self.finish()
        seal, layout, tensors = self._prepare(step, state, shards or {})
        try:
            with ExitStack() as lock:
                slot = lock.enter_context(self._claim(self._folder, seal).taken())
                if self._fill(slot, seal, layout, tensors, lock):
                    self._saved()
        except NoRoom as reason:
            self._skip(step, str(reason))
            return False
        return True

    def finish(self) -> None:
        """Return once what was saved last is whole. The end of the process does so, too."""
        self._overlap.fence()

    @during("loads")
    def restore(
        self, state: dict[str, Any], *, shards: Mapping[str, Shard] | None = None
    ) -> int | None:
        """Put back, in place, what all ranks agreed on; its step, or None for a fresh start.

        `shards` as in `save`: with it, or DTensors, ranks of another layout can have saved it.
        Raises `RestoreFailed` where that is not here or not whole, `CheckpointMisfit` where it does
        not fit; the state is unchanged then. What is not in weights of others is left as it is.
        """
        if self._folder is None and not self._settings.alone:
            return None
        if self._settings.alone:
            self._meet()
        self.finish()
        self._follow()
        wanted = self._settings.restore
        if wanted is None:
            self._forget_after(-1)
        else:
            with self._found(wanted, state, shards or {}) as found:
                self._put_back(found, wanted, state)
        if self._folder is not None:
            self._ask_room(self._folder, expected_bytes(state))
        if current.recorder is not None:
            current.recorder.starts_at(wanted.step if wanted else 0)
        return wanted.step if wanted else None

    def _follow(self) -> None:
        """Be of the attempt that this process is in, whenever the script has made us: with what an
        older one was told survivors would begin elsewhere than who was lost."""
        if not self._follows or self._folder is None:
            return
        if (settings := of_now(self._settings)) is not self._settings:
            self.finish()
            self._settings, self._known = settings, None
            self._skips = Skipped(epoch=settings.epoch, count=0, in_a_row=0, why="")

    def _put_back(self, found: Saved, wanted: Restore, state: dict[str, Any]) -> None:
        partly, some = found.partly, found.some
        fitting = Fitting(state, found.tree, found.find, partly=partly, some=some)
        generators = tree.build(found.generators, found.own)
        try:
            fitting.check(*found.wrong(), *rng.misfits(generators))
        except tree.Mismatch as error:
            raise misfit(self._settings, wanted, error) from None
        if fitting.left:
            _LOG.warning("what was restored are weights alone; as they were: %s", fitting.left)
        self._forget_after(wanted.step)
        fitting.carry_out()
        rng.put_back(generators)

    # ------------------------------------------------------------ saving

    def _prepare(
        self, step: int, state: Mapping[str, Any], shards: Mapping[str, Shard]
    ) -> tuple[Seal, Layout, dict[str, torch.Tensor]]:
        """All of a save that may raise because of the state, and nothing of what writes."""
        check_keys(self._replicated, state)
        taken = tree.take_apart(dict(state))
        extra = tree.take_apart(rng.capture(), "holdfast.rng")
        tensors = {**taken.tensors, **extra.tensors}
        if told := sorted(taken.places.keys() & shards):
            raise ValueError(f"shards: {told[0]!r} is a DTensor. Leave it out: it says it itself.")
        layout = self._lay_out(tensors, {**shards, **taken.places})
        return self._seal(step, layout, [taken.tree, extra.tree]), layout, tensors

    def _outside(self, step: int, state: Mapping[str, Any], shards: Mapping[str, Shard]) -> bool:
        """Outside Holdfast: to the store, where the script named one."""
        if not self._settings.alone:
            self._try_out(step, state, shards)
            return False
        if not self.due(step):
            return False
        if why := self._meet().save(*self._prepare(step, state, shards)):
            self._skip(step, why)
            return False
        self._saved()
        return True

    def _meet(self) -> Alone:
        """All ranks, at their first save or restore. Raises `RestoreFailed`."""
        if self._alone is None:
            try:
                self._alone = Alone(self._settings)
            except CannotBegin as error:
                raise RestoreFailed(str(error)) from error
            self._settings = self._alone.settings
        return self._alone

    def _try_out(self, step: int, state: Mapping[str, Any], shards: Mapping[str, Shard]) -> None:
        """Outside Holdfast: what is refused inside is refused here, seen at saves 1, 2, 4, 8 ….

        Not at each, for nothing is saved, and a script should not be slower for that.
        """
        self._tried += 1
        if self._tried & (self._tried - 1) == 0:
            self._prepare(step, state, shards)

    def _lay_out(self, tensors: Mapping[str, torch.Tensor], shards: Mapping[str, Shard]) -> Layout:
        specs = {name: spec(name, tensor) for name, tensor in tensors.items()}
        if self._known is None or self._known[:2] != (specs, shards):
            self._known = (specs, dict(shards), self._new_layout(specs, shards))
        return self._known[2]

    def _new_layout(self, specs: dict[str, Spec], shards: Mapping[str, Shard]) -> Layout:
        known = {
            name: Shard(one.shape, (0,) * len(one.shape), (Axis.DP,))
            for name, one in specs.items()
            if name.split(".", 1)[0] in self._replicated
        } | checked_shards(shards, specs)
        settings = self._settings
        sizes = {name: one.size_bytes for name, one in specs.items()}
        plan = writers(sizes, known, settings.topology, settings.rank)
        elsewhere = {name: rank for name, rank in plan.items() if rank != settings.rank}
        text = msgspec.json.encode(ShardPlan(known, elsewhere)).decode()
        return lay_out(specs, {PLAN_KEY: text})

    def _seal(self, step: int, layout: Layout, trees: list[tree.Tree]) -> Seal:
        settings = self._settings
        return Seal(
            job=settings.job,
            epoch=settings.epoch,
            step=step,
            rank=settings.rank,
            world_size=settings.world_size,
            topology=settings.topology,
            used_bytes=layout.size_bytes,
            head_bytes=len(layout.head),
            head_xxh3=xxhash.xxh3_64_hexdigest(layout.head),
            tree=msgspec.Raw(tree.encode(trees)),
        )

    def _claim(self, folder: SlotFolder, seal: Seal) -> Claim:
        return Claim(
            folder=folder,
            epoch=seal.epoch,
            size_bytes=seal.used_bytes,
            seal_bytes=len(bytes(seal.tree)),
            store_interval_steps=self._settings.store_interval_steps,
        )

    def _fill(
        self,
        slot: Slot,
        seal: Seal,
        layout: Layout,
        tensors: Mapping[str, torch.Tensor],
        lock: ExitStack,
    ) -> bool:
        """Copy and seal; False where a part of it goes on beside the next step."""
        area = self._area(slot, layout)
        owned = self._overlap.owned(tensors)
        late = {} if self._overlap.on_trial else owned
        now = {name: one for name, one in tensors.items() if name not in late}
        moved = {name: one for name, one in now.items() if movable(one)}
        area.put({name: one for name, one in now.items() if name not in moved})
        if late:
            area.put(moved)
            self._overlap.begin(seal, slot, area, late, lock.pop_all())
            return False
        slot.put_seal(seal, area.copy(moved).run(seal, threads=torch.get_num_threads()))
        if owned:
            self._overlap.try_out(area, owned)
        return True

    def _area(self, slot: Slot, layout: Layout) -> Area:
        # Also those of others that were emptied for this one: what is mapped is not free.
        self._areas = {each: area for each, area in self._areas.items() if area.maps(each)}
        area = self._areas.get(slot)
        if area is None:
            area = self._areas[slot] = Area(slot)
        area.prepare(layout)
        return area

    def _ended(self, step: int, why: str) -> None:
        """Of a save that went on beside the next step."""
        if why:
            self._skip(step, why)
        else:
            self._saved()

    def _skip(self, step: int, why: str) -> None:
        before = self._skips
        count, in_a_row = before.count + 1, before.in_a_row + 1
        skips = Skipped(before.epoch, count, in_a_row, f"step {step}: {why}", step)
        untold = self._tell_skips(skips)
        _LOG.warning("snapshot of step %d skipped (%d so far): %s%s", step, count, why, untold)

    def _saved(self) -> None:
        if self._skips.in_a_row and (untold := self._tell_skips(replace(self._skips, in_a_row=0))):
            _LOG.warning("snapshots are made again%s", untold)

    def _tell_skips(self, skips: Skipped) -> str:
        """What to add to a warning where the agent, and so the job's story, hears nothing of it."""
        self._skips = skips
        if self._folder is None:
            return ""
        try:
            self._folder.put_skipped(skips)
        except OSError as error:
            return f"; the agent cannot be told of it: {why_not(error)}"
        return ""

    # ------------------------------------------------------------ restoring

    def _ask_room(self, folder: SlotFolder, state_bytes: int) -> None:
        """Tell the agent how large slots should be, and people what that comes to on the node.

        A memory that is full already ends no rank: saves are skipped there until it is not.
        """
        try:
            folder.ask_room(state_bytes)
            room_bytes = folder.node_room_bytes()
        except OSError as error:
            _LOG.warning("no slots are made before they are needed: %s", why_not(error))
            return
        if self._settings.local_rank:
            return
        bill = Bill(
            state_bytes=state_bytes,
            ranks=self._settings.local_world_size,
            room_bytes=room_bytes,
            place=str(folder.folder.parent),
            for_copies=FOR_PEERS + peers.KEPT if self._settings.peer_interval_steps else 0,
        )
        _LOG.log(logging.INFO if bill.enough else logging.WARNING, "%s", bill)

    def _found(
        self, wanted: Restore, state: Mapping[str, Any], shards: Mapping[str, Shard]
    ) -> AbstractContextManager[Saved]:
        if wanted.source == "memory":
            if self._folder is None:
                raise AssertionError("restore() has looked")
            return restoring.from_memory(self._settings, self._folder, wanted)
        holds = partial(reshard.wanted, state, shards)
        return restoring.from_store(self._settings, wanted, holds)

    def _forget_after(self, last: int) -> None:
        """Break the seals of a history that no longer is: steps after what all agreed on."""
        for slot, seal in self._folder.sealed() if self._folder else ():
            if seal.step > last:
                slot.break_seal()


def _optimizers(given: Optimizer | Collection[Optimizer]) -> tuple[Optimizer, ...]:
    several = (given,) if isinstance(given, Optimizer) else tuple(given)
    for one in several:
        if not isinstance(one, Optimizer):
            raise TypeError(
                f"overlap: a {type(one).__name__} is no torch.optim.Optimizer, so nobody says when "
                "it writes. Leave it out: its tensors are copied within `save`."
            )
    return several
