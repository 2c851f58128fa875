"""A batch of events on its way through the loop: taken from what waits, decided, committed.

Used by `driver.loop` alone, which owns the state. Must not act on what was decided.
"""
