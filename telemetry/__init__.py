"""The rank's side of watching: progress, phases and collectives in a ring in shared memory.

Called inside ranks (by the launcher's hooks, the built-in workload, or a user's script) and by the
daemon, which reads the rings. Must not lock, wait, or let an exception of its own reach the user.
"""
