"""The GPT's parts, each split over the tensor group. Called by `pipeline` and `train`.

Must not talk to other stages or replicas: only the tensor group is known here.

Rooms: 1 and 23 (`block`), 2 and 9 (`attention`, `mlp`), 8 (`vocabulary`), 10 and 11 (`linear`),
22 (`block`).
"""
