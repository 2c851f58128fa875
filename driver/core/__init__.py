"""The decision core: `decide(state, event, now, policy) -> (state, effects, why)`. Pure.

Called by the driver's loop, the tests and the simulator. Must not do I/O, read a clock, or draw a
random number: `now` is an argument, ids come from the journal's sequence.
"""
