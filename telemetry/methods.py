"""Collectives as a torch without hooks on process groups shows them: 2.9 to 2.13.

Called by `hooks`. What Python calls is seen in the methods of `ProcessGroup`. What C++ enqueues by
itself (DDP's gradients, functional collectives) is not: of it the group's own sequence number tells
how many there were, and neither which nor whether they are done. HOLDFAST_HOOKS=methods takes this
way with a newer torch as well. Tried with torch 2.9 and 2.11, gloo, and NCCL of one rank.
"""

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast.telemetry import current
from holdfast.telemetry.collectives import Watched, missing
from holdfast.telemetry.looks import Tensor
from holdfast.telemetry.recorder import Group


class Name(NamedTuple):
    name: str


class Operation(NamedTuple):
    """As torch's hooks are given it (`collectives.Operation`)."""

    name: Name
    root: int = -1
    input_tensors: Sequence[Tensor] = ()
    work: Any = None


class Method(NamedTuple):
    """The operation that it is by torch's name, and where among its arguments what it reads is, and
    the rank that it is with."""

    operation: str
    reads: int = 0
    root: int | None = None

    @property
    def is_message(self) -> bool:
        """Or made of some, of which the first rank has more than the others."""
        return self.operation in ("SEND", "RECV", "MONITORED_BARRIER")

    def of(self, arguments: Sequence[Any]) -> Operation:
        root = -1 if self.root is None else arguments[self.root]
        return Operation(Name(self.operation), root, _read(arguments, self.reads))


METHODS = {
    "allreduce": Method("ALLREDUCE"),
    "broadcast": Method("BROADCAST"),
    "reduce": Method("REDUCE"),
    "allgather": Method("ALLGATHER", 1),
    "reduce_scatter": Method("REDUCE_SCATTER", 1),
    "alltoall": Method("ALLTOALL", 1),
    "barrier": Method("BARRIER"),
    "scatter": Method("SCATTER", 1),
    "gather": Method("GATHER", 1),
    "allreduce_coalesced": Method("ALLREDUCE_COALESCED"),
    "_allgather_base": Method("ALLGATHER_BASE", 1),
    "allgather_coalesced": Method("ALLGATHER_COALESCED", 1),
    "allgather_into_tensor_coalesced": Method("ALLGATHER_INTO_TENSOR_COALESCED", 1),
    "_reduce_scatter_base": Method("REDUCE_SCATTER_BASE", 1),
    "reduce_scatter_tensor_coalesced": Method("REDUCE_SCATTER_TENSOR_COALESCED", 1),
    "alltoall_base": Method("ALLTOALL_BASE", 1),
    "send": Method("SEND", root=1),
    "recv": Method("RECV", root=1),
    "recv_anysource": Method("RECV"),
    "monitored_barrier": Method("MONITORED_BARRIER"),
}
_WATCHED: "weakref.WeakKeyDictionary[Any, Counted]" = weakref.WeakKeyDictionary()


def wanted(of: Any) -> bool:
    """Whether a group, or its class, has no hooks of its own, or this way is asked for."""
    asked = os.environ.get("HOLDFAST_HOOKS") == "methods"
    return asked or not hasattr(of, "register_pre_hook")


def hook_methods(c10d: Any) -> None:
    """Have each group's methods tell `watch`ed groups of what they enqueue."""
    for name in METHODS:
        inner = getattr(c10d.ProcessGroup, name, None)
        if inner is not None:
            setattr(c10d.ProcessGroup, name, telling(name, inner))


def watch(group: Any, watched: Watched) -> None:
    """From now on what `group` does is counted."""
    counted = Counted(group, watched)
    _WATCHED[group] = counted
    watched.counts.follow = counted.follow


def forget(group: Any) -> None:
    """What it does from now on is not counted."""
    if (counted := _WATCHED.pop(group, None)) is not None:
        counted.watched.counts.follow = None


class Counted:
    """Numbers of one group's collectives, those that C++ enqueued among them."""

    def __init__(self, group: Any, watched: Watched) -> None:
        self.watched = watched
        self._group = weakref.ref(group)
        self._counts: Group = watched.counts
        # The pulse follows, too; and a signal's handler may come between, and call a collective.
        self._one = threading.RLock()
        self._messages = 0  # that are being enqueued
        self._uncounted = -(self._sequence() or 0)  # by torch, but by us; or before us

    def call(self, method: Method, arguments: Sequence[Any], enqueue: Callable[[], Any]) -> Any:
        """Count what `enqueue` does, and return what it returns."""
        self._messages += method.is_message
        try:
            before, op = self._begins(method, arguments)
            work = enqueue()
            if op is not None:
                self._made(method, before, op._replace(work=work))
            return work
        finally:
            self._messages -= method.is_message

    def _begins(
        self, method: Method, arguments: Sequence[Any]
    ) -> tuple[int | None, Operation | None]:
        try:
            with self._one:
                sequence = self._catch_up()
                op = method.of(arguments)
                self.watched.begins(op)
                return sequence, op
        except Exception:  # noqa: BLE001 it is ours, and not the user's
            missing("collectives")
            return None, None

    def _made(self, method: Method, before: int | None, op: Operation) -> None:
        """Torch has given it a number, or does not count its kind. A message is none of the group's
        collectives, whichever: other ranks have no part in it."""
        with self._one:
            after = self._sequence()
            if before is not None and after is not None:
                if method.is_message:
                    self._uncounted -= after - before
                else:
                    self._uncounted = max(self._uncounted, self._counts.enqueued - after)
            self.watched.made(op)

    def follow(self) -> None:
        """Count what was enqueued by nobody that is seen."""
        if self._one.acquire(blocking=False):  # else a call is about to
            try:
                self._catch_up()
            finally:
                self._one.release()

    def _catch_up(self) -> int | None:
        """Not while a message is under way, which torch may have counted: another thread's, too."""
        sequence = self._sequence()
        if sequence is None or self._messages:
            return sequence
        if (more := sequence + self._uncounted) > self._counts.enqueued:
            self._counts.unseen(more)
            missing("done")
        return sequence

    def _sequence(self) -> int | None:
        """Of the last collective, as torch counts; None where its backend does not."""
        group = self._group()
        with suppress(Exception):  # of torch, or of a group that is written in Python
            if group is not None:
                return int(group._get_sequence_number_for_group())
        return None


def telling(name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
    """One of METHODS of a class of groups, which has it counted."""
    method = METHODS[name]

    def told(group: Any, *arguments: Any, **named: Any) -> Any:
        counted = _WATCHED.get(group) if current.recorder is not None else None
        if counted is None:
            return inner(group, *arguments, **named)
        return counted.call(method, arguments, lambda: inner(group, *arguments, **named))

    # By this name and first argument pybind11 knows that the call comes from an override, and does
    # not call it again for a group that is written in Python.
    told.__code__ = told.__code__.replace(co_name=name)
    return told


def _read(arguments: Sequence[Any], place: int) -> list[Tensor]:
    """The tensors that an operation reads: one, several, or a list of each."""
    given = arguments[place] if place < len(arguments) else ()
    listed = given if isinstance(given, (list, tuple)) else [given]
    found: list[Tensor] = []
    for each in listed:
        found += each if isinstance(each, (list, tuple)) else [each]
    return [each for each in found if hasattr(each, "numel")]
