"""The fence in a store: once an attempt has begun, agents of older ones neither commit nor delete.

Used by the agent's look-up, its upload and its sweeper.
"""

from holdfast.checkpoint.layout import fence_name, parse_fence
from holdfast.checkpoint.stores import Store


class Superseded(Exception):
    """A newer epoch has begun, or the agent is told to do something else: this work is over."""


def raise_fence(store: Store, epoch: int) -> None:
    """Say in the store that `epoch` has begun. Those of older ones go with the next sweep: a look
    at the store must not wait for a deletion. Raises `StoreError`.
    """
    if not any(parse_fence(entry.name) == epoch for entry in store.entries("")):
        store.put(fence_name(epoch), [b"\n"])


def check_fence(store: Store, epoch: int) -> None:
    """Raise `Superseded` where the store says that a newer epoch has begun, or `StoreError`."""
    fences = [parse_fence(entry.name) for entry in store.entries("")]
    if max((known for known in fences if known is not None), default=0) > epoch:
        raise Superseded("a later attempt of the job has begun")
