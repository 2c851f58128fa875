"""The fence in a store: once an attempt has begun, agents of older ones neither commit nor delete.

Used by the agent's look-up, its drain and its sweeper.
"""

from contextlib import suppress

from holdfast.checkpoint.layout import fence_name, parse_fence
from holdfast.checkpoint.stores import Store, StoreError


class Superseded(Exception):
    """A newer epoch has begun, or the agent is told to do something else: this work is over."""


def raise_fence(store: Store, epoch: int) -> None:
    """Say in the store that `epoch` has begun. Raises `StoreError`."""
    fences = [(parse_fence(entry.name), entry.name) for entry in store.entries("")]
    if any(known == epoch for known, _ in fences):
        return
    store.put(fence_name(epoch), [b"\n"])
    for known, name in fences:
        if known is not None and known < epoch:
            with suppress(StoreError):  # the newest counts, and the next attempt tries it again
                store.delete(name)


def check_fence(store: Store, epoch: int) -> None:
    """Raise `Superseded` where the store says that a newer epoch has begun, or `StoreError`."""
    fences = [parse_fence(entry.name) for entry in store.entries("")]
    if max((known for known in fences if known is not None), default=0) > epoch:
        raise Superseded("a later attempt of the job has begun")
