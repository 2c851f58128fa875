"""Two-stage checkpoints: snapshots in the node's memory, then shards and a manifest in a store.

Called by training ranks (save, restore) and by the executor's agent (upload). Must not call a thing
a checkpoint before its manifest is whole, pickle anything, or skip a save in silence.
"""

from typing import TYPE_CHECKING

from holdfast.checkpoint.layout import Shard

if TYPE_CHECKING:
    from holdfast.checkpoint.checkpointer import Checkpointer

__all__ = ["Checkpointer", "Shard"]


def __getattr__(name: str) -> object:
    """Load the rank's side, and torch with it, only where it is asked for: agents have no torch."""
    if name != "Checkpointer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from holdfast.checkpoint.checkpointer import Checkpointer

    return Checkpointer
