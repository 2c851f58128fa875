"""Text from files, cut into samples, drawn in an order that depends on the seed and position only.

Called by `train`. Must not keep hidden state: the position is one number, kept in the checkpoint.

Rooms: 18 and 19 (`corpus`), 20 (`sampler`).
"""
