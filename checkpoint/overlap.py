"""Copies that run beside the next forward and backward, of what only an optimizer writes to.

Used by the checkpointer in ranks only. Before any optimizer steps, and before the next save, the
copy is waited for, and only then sealed. Whoever else writes to these tensors meanwhile is found
out, and such a copy is never sealed. Must not leave a rank with an error of its own making.
"""

import atexit
import logging
import os
import weakref
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from threading import Thread

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from holdfast.checkpoint.copying import Copy, movable
from holdfast.checkpoint.device_copy import DeviceCopy
from holdfast.checkpoint.filling import Area
from holdfast.checkpoint.marks import Marks, differing
from holdfast.checkpoint.slots import NoRoom, Slot
from holdfast.checkpoint.words import Seal

TRIALS = 2
"""So many saves are copied at once, and compared with their tensors in full before an optimizer
steps: a script that writes by another way at every step is known by then."""

Ended = Callable[[int, str], None]
"""Called with the step once it is sealed, or with why it never will be."""

_LOG = logging.getLogger("holdfast.checkpoint")


class Overlap:
    """What of a rank's saves is under way, at most one. `optimizers` own what may be late."""

    def __init__(self, optimizers: Collection[Optimizer], ended: Ended) -> None:
        self._optimizers = tuple(optimizers)
        self._ended = ended
        self._trials = TRIALS
        self._tried: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._late: _Late | None = None
        if self._optimizers:
            hook = register_optimizer_step_pre_hook(_calls(weakref.WeakMethod(self.fence)))
            weakref.finalize(self, hook.remove).atexit = False
            _ALL.add(self)

    def owned(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Those of a state's tensors that an optimizer updates or keeps for itself."""
        places = {_place(one) for optimizer in self._optimizers for one in _tensors_of(optimizer)}
        return {
            name: tensor
            for name, tensor in tensors.items()
            if places and _place(tensor) in places and _may_be_late(tensor)
        }

    @property
    def on_trial(self) -> bool:
        """Whether it is not known yet that only optimizers write to what they own."""
        return self._trials > 0

    def try_out(self, area: Area, tensors: Mapping[str, torch.Tensor]) -> None:
        """Of a copy that is made: compare it before an optimizer steps."""
        copies = area.views(tensors)
        self._tried = {name: (tensors[name], copies[name]) for name in copies}

    def begin(
        self,
        seal: Seal,
        slot: Slot,
        area: Area,
        tensors: Mapping[str, torch.Tensor],
        lock: ExitStack,
    ) -> None:
        """Copy these from now on; all others are in the slot. It takes over the slot's lock."""
        self._late = _Late(seal, slot, area, tensors, lock)

    def fence(self) -> None:
        """Wait for what is being copied, and seal it if it is what was to be saved."""
        late = self._late
        if late is not None and late.is_ours:
            self._late = None
            self._end(late)
        if self._tried:
            self._judge()

    def _end(self, late: "_Late") -> None:
        with late.lock:
            digest = late.wait()
            why = self._refusal(late.marks.written(late.copies()))
            if not why:
                try:
                    late.slot.put_seal(late.seal, digest)
                except NoRoom as error:
                    why = str(error)
        self._ended(late.seal.step, why)

    def _judge(self) -> None:
        tried, self._tried = self._tried, {}
        self._trials -= 1
        if why := self._refusal(differing(tried)):
            _LOG.warning("%s", why)

    def _refusal(self, name: str | None) -> str:
        if name is None:
            return ""
        self._optimizers = ()
        return (
            f"{name} was written to between a save and the next step of an optimizer, and not by "
            "an optimizer. All is copied within `save` from here on. Save after such updates"
        )


class _Late:
    """One copy that runs in a thread of its own."""

    def __init__(
        self,
        seal: Seal,
        slot: Slot,
        area: Area,
        tensors: Mapping[str, torch.Tensor],
        lock: ExitStack,
    ) -> None:
        self.seal, self.slot, self.lock = seal, slot, lock
        self._area, self._names, self._pid = area, tuple(tensors), os.getpid()
        self._digest = ""
        self._error: BaseException | None = None
        self.marks = Marks(tensors)
        host = {name: one for name, one in tensors.items() if movable(one)}
        self._host: Copy = area.copy(host)
        device = {name: one for name, one in tensors.items() if name not in host}
        self._device = DeviceCopy(area, device, self.marks) if device else None
        self._thread = Thread(target=self._run, name="copy", daemon=True)
        self._thread.start()

    @property
    def is_ours(self) -> bool:
        """False in a process that was forked meanwhile: the copy runs in its parent."""
        return self._pid == os.getpid()

    def wait(self) -> str:
        """The checksum, once all is copied. Raises what the copy raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._digest

    def copies(self) -> dict[str, torch.Tensor]:
        return self._area.views(self._names)

    def _run(self) -> None:
        try:
            if self._device is not None:
                self._device.run()
            self._digest = self._host.run(self.seal, threads=1)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error


def _tensors_of(optimizer: Optimizer) -> list[torch.Tensor]:
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    kept = (one for state in optimizer.state.values() for one in _values(state))
    tensors = [*parameters, *(one for one in kept if isinstance(one, torch.Tensor))]
    # Of a DTensor its local part is saved.
    local = [getattr(one, "_local_tensor", one) for one in tensors]
    return [one for one in local if one.layout is torch.strided]


def _values(state: object) -> Collection[object]:
    return state.values() if isinstance(state, dict) else ()


def _place(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.dtype, tensor.device


def _may_be_late(tensor: torch.Tensor) -> bool:
    """Torch counts what is written to it, and it lies as it will in the slot."""
    known = tensor.device.type in ("cpu", "cuda") and tensor.is_contiguous()
    return known and tensor.numel() > 0 and not tensor.is_inference()


def _calls(method: "weakref.WeakMethod[Callable[[], None]]") -> Callable[..., None]:
    def hook(*_: object) -> None:
        if found := method():
            found()

    return hook


_ALL: "weakref.WeakSet[Overlap]" = weakref.WeakSet()


@atexit.register
def _finish() -> None:
    """What a rank saved last is whole before it ends."""
    for overlap in tuple(_ALL):
        overlap.fence()
