"""Fault 2: a node's executor, daemon or launcher, or the keeper, is killed."""

import os
import signal
from random import Random

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector
from holdfast.lab.cluster import Lab


def killed(process: str) -> Injector:
    """SIGKILL `executor`, `daemon` or `launcher` of a node that carries ranks."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        node = rng.choice(target.hosts_of(lab, job))
        os.kill(target.process_pid(lab, node, process), signal.SIGKILL)
        return Done(said=f"SIGKILL to the {process} of {node.name}", node=node.name)

    return do


def keeper_killed(lab: Lab, _job: str, _rng: Random) -> Done:
    """SIGKILL to the keeper: the lab starts it again, as an operator's init would."""
    os.kill(lab.pid("keeper"), signal.SIGKILL)
    return Done(said="SIGKILL to the keeper")
