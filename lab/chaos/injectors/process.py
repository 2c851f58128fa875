"""Fault 2: any process of a node but its ranks, or one that serves all nodes, is killed."""

import os
import signal
from random import Random

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector
from holdfast.lab.cluster import Lab


def killed(process: str) -> Injector:
    """SIGKILL one of `target.PROCESSES` of a node that carries ranks."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        node = rng.choice(target.hosts_of(lab, job))
        os.kill(target.process_pid(lab, node, process), signal.SIGKILL)
        return Done(said=f"SIGKILL to the {process} of {node.name}", node=node.name)

    return do


def keeper_killed(lab: Lab, _job: str, _rng: Random) -> Done:
    """SIGKILL to the keeper: the lab starts it again, as an operator's init would."""
    os.kill(lab.pid("keeper"), signal.SIGKILL)
    return Done(said="SIGKILL to the keeper")


def store_killed(lab: Lab, job: str, _rng: Random) -> Done:
    """SIGKILL to the rendezvous store of the job's epoch, on the node of rank 0."""
    node = target.hosts_of(lab, job)[0]
    os.kill(target.process_pid(lab, node, "store"), signal.SIGKILL)
    return Done(said=f"SIGKILL to the store process of {node.name}", node=node.name)


def gateway_killed(lab: Lab, _job: str, _rng: Random) -> Done:
    """SIGKILL to the relay between the nodes' network and the driver: all connections end."""
    os.kill(target.cluster(lab).switch_pid, signal.SIGKILL)
    return Done(said="SIGKILL to the gateway")
