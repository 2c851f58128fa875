"""Lets others of the same user read this process: py-spy, which takes the stacks of hung ranks.

Called in each process on its way to being a rank. py-spy reads by process_vm_readv and stands
beside the rank, below the executor. Where Yama has ptrace_scope=1 (Ubuntu's default) only who
stands above a process may read it so, or has CAP_SYS_PTRACE, which nobody in a pod of ours has,
root neither; unless the process itself says who else may: prctl(2), PR_SET_PTRACER. Yama keeps
that for each process until it ends, so it outlives an exec, and is not passed on by a fork
(security/yama/yama_lsm.c). With ptrace_scope 2 or 3 it has no effect, and there are no stacks.
"""

import ctypes

PR_SET_PTRACER = 0x59616D61
PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)

_prctl = ctypes.CDLL(None).prctl
"""Looked up before any fork: the child of one whose process has threads should do little."""


def let_be_read() -> None:
    """Have Yama let any process read this one that may by all else, so of the same user.

    A kernel without Yama answers EINVAL: there nobody has to be asked.
    """
    _prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)
