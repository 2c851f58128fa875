"""Micro-batches through the stages: the order of the work (pure), and the run of it.

Called by `train`. Must not know what a stage computes.

Rooms: 4 and 5 (`schedule`), 6 and 7 (`run`).
"""
