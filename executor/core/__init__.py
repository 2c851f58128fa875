"""The executor's decisions, pure: `converge.step(state, event, now) -> (state, actions)`.

Called by `executor.loop` alone. Must not do I/O, read a clock, or know how a process is started.
"""
