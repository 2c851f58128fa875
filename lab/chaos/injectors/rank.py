"""Faults 1 and 4: a rank is killed, or stopped in the middle of whatever it does."""

import os
import signal
import time
from random import Random

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector
from holdfast.lab.cluster import Lab


def signalled(number: signal.Signals, rank: int | None = None) -> Injector:
    """Send `number` to one rank: the one given, or one drawn."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        pids = target.wait_for(lambda: target.rank_pids(lab, job), f"a rank of {job}", 10.0)
        victim = rank if rank is not None else rng.choice(sorted(pids))
        pid = pids[victim]
        node = target.node_of(lab, pid).name
        at_s = time.time()
        os.kill(pid, number)
        said = f"{number.name} to rank {victim} on {node}"
        return Done(said=said, node=node, rank=victim, at_s=at_s)

    return do
