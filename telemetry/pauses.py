"""Pauses that a script marks without knowing it: it saves, loads, compiles, evaluates.

`hooks` installs each of these once its module of torch is loaded. A wrapper adds a store into the
ring to a call that takes milliseconds at least, and a span to the wait for a batch; no module's
`forward` is touched, and no batch. What
cannot be hooked is no pause, and judged by what moves alone.
"""

import functools
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from holdfast.telemetry import current, schema

_F = TypeVar("_F", bound=Callable[..., Any])


def hook_serialization(module: Any) -> None:
    """`torch.save` and `torch.load`."""
    _wrap(module, {"save": schema.SAVING, "load": "loads"}, "torch")


def hook_saver(module: Any) -> None:
    """Saving of distributed checkpoints."""
    names = dict.fromkeys(("save", "async_save", "save_state_dict"), schema.SAVING)
    _wrap(module, names, "torch.distributed.checkpoint")


def hook_loader(module: Any) -> None:
    """Loading of distributed checkpoints."""
    _wrap(
        module, dict.fromkeys(("load", "load_state_dict"), "loads"), "torch.distributed.checkpoint"
    )


def hook_modules(module: Any) -> None:
    """`eval()` of a module: from there to the next optimizer step the rank evaluates."""
    inner = module.Module.eval

    @functools.wraps(inner)
    def evaluate(self: Any) -> Any:
        recorder = current.recorder
        if recorder is not None:
            recorder.pause_until_step("evaluates")
        return inner(self)

    module.Module.eval = evaluate


def hook_compiles(module: Any) -> None:
    """Each graph that torch.compile compiles, the first above all."""
    open_pauses: list[AbstractContextManager[None]] = []

    def start(*_: object) -> None:
        pause = paused("compiles")
        pause.__enter__()
        open_pauses.append(pause)

    def end(*_: object) -> None:
        if open_pauses:
            open_pauses.pop().__exit__(None, None, None)

    module.callback_handler.register_start_callback(start)
    module.callback_handler.register_end_callback(end)


def hook_loaders(module: Any) -> None:
    """A new iterator over a data loader, up to its first batch: workers have to come."""
    inner = module.DataLoader.__iter__

    @functools.wraps(inner)
    def iterate(self: Any) -> Any:
        with paused("starts a data loader"):
            made = inner(self)
            if current.recorder is not None and "_next_data" not in vars(made):
                made._next_data = _first(made, made._next_data)
            return made

    module.DataLoader.__iter__ = iterate
    if (batches := getattr(module, "_BaseDataLoaderIter", None)) is not None:
        batches.__next__ = _timed(batches.__next__)


def _timed(fetch: Any) -> Any:
    """`__next__` of an iterator, as a span: how long the script waited for its batch."""

    @functools.wraps(fetch)
    def timed(self: Any) -> Any:
        began_ns = time.monotonic_ns()
        batch = fetch(self)
        recorder = current.recorder
        if recorder is not None and recorder.tracer is not None:
            recorder.tracer.fetched(began_ns)
        return batch

    return timed


def _first(iterator: Any, fetch: Callable[[], Any]) -> Callable[[], Any]:
    """`fetch`, marked; it takes itself off the iterator when it is called."""

    def first() -> Any:
        vars(iterator).pop("_next_data", None)
        with paused("starts a data loader"):
            return fetch()

    return first


def paused(name: str) -> AbstractContextManager[None]:
    """Say that this rank does what `schema.PAUSES` calls so; nothing outside Holdfast."""
    recorder = current.recorder
    return nullcontext() if recorder is None else recorder.pause(name)


def _wrap(module: Any, names: dict[str, str], package: str) -> None:
    """Mark calls of these functions, also by the name that their package has for them."""
    again = sys.modules.get(package)
    for name, pause in names.items():
        inner = getattr(module, name, None)
        if inner is None:
            continue
        marked = during(pause)(inner)
        setattr(module, name, marked)
        if getattr(again, name, None) is inner:
            setattr(again, name, marked)


def during(pause: str) -> Callable[[_F], _F]:
    """Mark all calls of a function as one of `schema.PAUSES`."""

    def mark(inner: Any) -> Any:
        @functools.wraps(inner)
        def call(*positional: Any, **named: Any) -> Any:
            with paused(pause):
                result = inner(*positional, **named)
            if pause == schema.SAVING and current.recorder is not None:
                current.recorder.saved()
            return result

        return call

    return mark


HOOKS: dict[str, Callable[[Any], None]] = {
    "torch.serialization": hook_serialization,
    "torch.distributed.checkpoint.state_dict_saver": hook_saver,
    "torch.distributed.checkpoint.state_dict_loader": hook_loader,
    "torch.nn.modules.module": hook_modules,
    "torch._dynamo.callback": hook_compiles,
    "torch.utils.data.dataloader": hook_loaders,
}
"""By the module of torch that has what is marked."""
