"""What people do with checkpoints in a store, without a driver: list, show, verify, convert.

Called by `cli.checkpoint`. Knows stores only by their port. Must not load torch, but for `dcp`, nor
delete anything.
"""
