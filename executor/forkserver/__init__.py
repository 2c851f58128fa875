"""The fork server: a process that outlives runs, has imported torch, and forks their processes.

Started by `holdfast warm`, asked by `holdfast run` for its driver and its keeper, and by that for
nodes. What comes from it is what any other start makes: the same processes below each other, with
the same environment, marks, output and lifelines; only nothing has to be imported. Must not start a
thread, run the user's code, or take from a socket more than data.
"""

BOOT = (
    "import sys; sys.path[:1] = []; start = frozenset(sys.modules); "
    "from holdfast.executor.forkserver.main import main; main(sys.argv[1:], start)"
)
"""Run by `python -c`, as the launcher is."""
