"""Hooks for a script that imports nothing of ours: collectives, optimizer steps, last exception.

`install()` is called by the launcher's forked child before the user's script, whether torch is
loaded already or comes later. Every hook swallows its own errors: what cannot be watched is said in
the ring ("partial"), and the script runs on. Tried with torch 2.15 and 2.11, and gloo.
"""

import atexit
import errno
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.protocol.paths import span_ring
from holdfast.telemetry import (
    cuda,
    current,
    errors,
    garbage,
    looks,
    methods,
    pauses,
    trackers,
    workers,
)
from holdfast.telemetry.collectives import Watched, missing
from holdfast.telemetry.recorder import Group, Recorder
from holdfast.telemetry.ring import RingWriter
from holdfast.telemetry.trace.ring import SpanWriter

HOOK_ID = 0x484F4C44
"""Ours among the hooks of a process group ("HOLD")."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Never in the words of a full disk, which whoever reads a rank's log would look for."""


def install() -> None:
    """Watch this process, as HOLDFAST_RING, RANK and HOLDFAST_EPOCH say; without them do nothing.

    Raises nothing.
    """
    with suppress(Exception):
        errors.install()
    once_loaded("multiprocessing.process", _quietly(workers.hook_processes))
    ring = os.environ.get("HOLDFAST_RING")
    if not ring or current.recorder is not None:
        return
    with suppress(Exception):
        _install(Path(ring))


def _install(ring: Path) -> None:
    _record(ring)
    os.register_at_fork(after_in_child=_forget)
    atexit.register(_let_go)
    for module, hook in (
        ("torch.optim.optimizer", _hook_steps),
        ("torch.distributed.distributed_c10d", _hook_groups),
        ("torch.cuda.streams", _quietly(cuda.hook_streams)),
    ):
        once_loaded(module, hook)
    if looks.wanted():
        once_loaded("torch.nn.utils.clip_grad", _quietly(looks.hook_clips))
    for module, mark in pauses.HOOKS.items():
        once_loaded(module, _quietly(mark))
    if trackers.wanted():
        for module, mark in trackers.HOOKS.items():
            once_loaded(module, _quietly(mark))


def _record(ring: Path) -> None:
    rank, epoch = int(os.environ["RANK"]), int(os.environ.get("HOLDFAST_EPOCH", "0"))
    writer = RingWriter(ring, rank=rank, epoch=epoch, patient=True)
    if (error := writer.lacks) is not None:  # process-level care only
        why = "its memory folder is full" if error.errno in _FULL else error
        sys.stderr.write(
            f"holdfast: nobody watches this rank for hangs until there is room: {ring}: {why}\n"
        )
    recorder = Recorder(writer, _spans(ring, rank, epoch))
    recorder.start()
    garbage.count(recorder.ring)
    current.recorder = recorder


def _spans(ring: Path, rank: int, epoch: int) -> SpanWriter | None:
    """Beside the ring; where there is no room for it, nothing is traced."""
    try:
        return SpanWriter(span_ring(ring), rank=rank, epoch=epoch)
    except OSError:
        return None


def renew() -> None:
    """This process goes on as the rank of another attempt, which has a ring of its own. Raises
    nothing."""
    watched = current.recorder is not None
    with suppress(Exception):  # as in `install`
        _let_go()
        if watched:
            _record(Path(os.environ["HOLDFAST_RING"]))


def _quietly(hook: Callable[[Any], None]) -> Callable[[Any], None]:
    """A pause that cannot be marked in this torch is no reason to fail its import."""

    def hooked(module: Any) -> None:
        with suppress(Exception):
            hook(module)

    return hooked


def _forget() -> None:
    """A child of the rank (a data loader's worker) has its mapping, but is not the rank."""
    current.recorder = None
    garbage.forget()


def _let_go() -> None:
    """Take the hooks off: torch destroys groups after the interpreter is gone, and a Python hook
    still on one is then a segmentation fault in place of the script's own exit code."""
    recorder, current.recorder = current.recorder, None
    if recorder is None:
        return
    garbage.forget()
    recorder.stop()
    if current.ends:
        with suppress(Exception):  # no thread is to be had: then it is silent
            recorder.beats_on()
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    for group in list(c10d._world.pg_map) if c10d is not None else ():
        with suppress(Exception):
            unhook_group(group)


# ---------------------------------------------------------------- when torch is loaded


def once_loaded(name: str, hook: Callable[[Any], None]) -> None:
    """Call `hook(module)` now, or right after the module has been imported."""
    if name in sys.modules:
        hook(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, hook))


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the usual finders find one module, and calls a hook once it is loaded."""

    def __init__(self, name: str, hook: Callable[[Any], None]) -> None:
        self._name, self._hook = name, hook

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            _after_exec(spec.loader, self._hook)
        return spec


def _after_exec(loader: Any, hook: Callable[[Any], None]) -> None:
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        load(module)
        hook(module)

    loader.exec_module = exec_module


# ---------------------------------------------------------------- steps


def _hook_steps(optimizer: Any) -> None:
    register = getattr(optimizer, "register_optimizer_step_post_hook", None)
    if register is None:
        missing("step")
    else:
        register(_stepped)
        optimizer.register_optimizer_step_pre_hook(_optimizes)


def _optimizes(*_: object) -> None:
    with suppress(Exception):
        if current.recorder is not None:
            current.recorder.optimizes()


def _stepped(*_: object) -> None:
    with suppress(Exception):
        if current.recorder is not None:
            current.recorder.stepped()


# ---------------------------------------------------------------- collectives


def _hook_groups(c10d: Any) -> None:
    make = getattr(c10d, "_new_process_group_helper", None)
    if make is None:
        missing("collectives")
        return
    if methods.wanted(c10d.ProcessGroup):
        methods.hook_methods(c10d)

    def made(size: int, rank: int | None, ranks: Sequence[int], *rest: Any, **named: Any) -> Any:
        with _meeting():
            result = make(size, rank, ranks, *rest, **named)
        try:
            if isinstance(result[0], c10d.ProcessGroup):
                _watch_group(result[0], list(ranks) or list(range(result[0].size())))
        except Exception:  # noqa: BLE001 whatever it is, it is ours and not the user's
            missing("collectives")
        return result

    c10d._new_process_group_helper = made
    _hook_waits(c10d)


@contextmanager
def _meeting() -> Iterator[None]:
    """Say that the rank waits while a group is made: those of gloo connect to each other there."""
    recorder = current.recorder
    outer = recorder.waits() if recorder is not None else False
    try:
        yield
    finally:
        if recorder is not None:
            recorder.waited(outer)
            recorder.is_past("group")


def _hook_waits(c10d: Any) -> None:
    """Say in the ring while the script waits for a peer. Waits inside C++ (DDP's) do not show."""
    try:
        c10d.Work.wait = telling_wait(c10d.Work.wait)
    except (AttributeError, TypeError):
        missing("waits")


def telling_wait(inner: Callable[..., Any]) -> Callable[..., Any]:
    """The `wait` of a class of works, which says so."""

    # pybind11 knows by this name and first argument that the call comes from an override, and does
    # not call it again for a Work that is written in Python.
    def wait(work: Any, *rest: Any, **named: Any) -> Any:
        recorder = current.recorder
        if recorder is None:
            return inner(work, *rest, **named)
        outer, begin = recorder.waits(), recorder.gpu.waits()
        try:
            result = inner(work, *rest, **named)
            with suppress(Exception):
                recorder.is_over(work)
            return result
        finally:
            recorder.gpu.waited(begin, work)
            recorder.waited(outer)

    return wait


def _watch_group(group: Any, ranks: list[int]) -> None:
    recorder = current.recorder
    counts = recorder.new_group(ranks) if recorder is not None else None
    if recorder is None or counts is None:
        return
    polled = str(group.name()).lower() == "gloo"
    if not polled:
        # To ask a CUDA event from our thread can break the script's capture of a CUDA graph.
        recorder.missing("done")
    hook_group(group, recorder, counts, ranks, polled=polled)


def hook_group(
    group: Any, recorder: Recorder, counts: Group, ranks: list[int], *, polled: bool
) -> None:
    """Count what the group does. `polled`: also ask whether it is done."""
    watched = Watched(recorder, counts, ranks, polled=polled)
    if methods.wanted(group):
        methods.watch(group, watched)
        return
    group.register_pre_hook(HOOK_ID, watched.begins)
    group.register_post_hook(HOOK_ID, watched.made)


def unhook_group(group: Any) -> None:
    """Raises RuntimeError where it is not hooked."""
    if methods.wanted(group):
        methods.forget(group)
        return
    group.unregister_pre_hook(HOOK_ID)
    group.unregister_post_hook(HOOK_ID)
