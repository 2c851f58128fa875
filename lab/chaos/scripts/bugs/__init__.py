"""Bugs that users' scripts have, and pauses that are none, by name. What is met is a function
of the trainer, called at the beginning of a step, or after it. Known to `scripts.buggy` alone,
which meets them.
"""

from collections.abc import Callable

from holdfast.lab.chaos.scripts.bugs import collectives, ends, figures, hangs, pauses
from holdfast.workload.train import Trainer

BUGS: dict[str, Callable[[Trainer], None]] = {
    **hangs.BUGS,
    **pauses.BUGS,
    **ends.BUGS,
    **collectives.BUGS,
    **figures.BUGS,
}
AFTERWARDS = ("flip",)
"""Those that are called after a step, so that what they do is saved."""
