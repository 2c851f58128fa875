"""The fork server: a process that outlives runs, has imported torch, and forks launchers for nodes.

Started by `holdfast warm`, asked by the keeper. A node that comes from it is what any other is: its
host and its executor are forked and then executed anew, with their own environment; the launcher
alone keeps what was imported. Must not start a thread, run the user's code, or take from a socket
more than data.
"""

BOOT = (
    "import sys; sys.path[:1] = []; start = frozenset(sys.modules); "
    "from holdfast.executor.forkserver.main import main; main(sys.argv[1:], start)"
)
"""Run by `python -c`, as the launcher is."""
