"""ZeRO-2: gradients and optimizer state shared out over the data-parallel group.

Called by `train`. Must not know what the parameters are for.

Rooms: 12 and 16 (`step`), 13 (`step`), 14 and 15 (`flat`), 17 (`step`), 3 (`rules`: LAMB).
"""
