"""The warm launcher: a single-threaded process that has imported what ranks need, and forks them.

Started by `executor.adapters.launcher` on one end of a socket pair; it ends when the other end
closes. Must never run a tensor operation (a forked child's first large one would hang in OpenMP),
start a thread, or touch a GPU, and refuses to fork once something it imported has.
"""

BOOT = (
    "import sys; sys.path[:1] = []; start = frozenset(sys.modules); "
    "from holdfast.executor.launcher.main import main; main(sys.argv[1:], start)"
)
"""Run by `python -c`: with `-m`, a `json.py` in the working directory would be imported for ours,
and `-P` would be passed on to the children that a rank spawns by multiprocessing."""
