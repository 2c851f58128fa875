"""A rank's spans: what it did when, in a ring of their own beside that of its progress.

Written by the recorder and the hooks, read by the daemon. Must not lock, wait, or let an exception
of its own reach the user.
"""
