"""Two-stage checkpoints: snapshots in the node's memory, then shards and a manifest in a store.

Called by training ranks (save, restore) and by the executor's agent (drain). Must not call a thing
a checkpoint before its manifest is whole, pickle anything, or skip a save in silence.
"""
