"""Faults 2 and 49: any process of a node but its ranks, or one that serves all nodes, is killed; or
all daemons stand still."""

import os
import signal
import time
from random import Random
from typing import Any

from holdfast.keeper import processes
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector, rank
from holdfast.lab.cluster import Lab

KNOWN_S = 5.0
"""An executor looks every 3 s at what its ranks have imported."""
TRAINS_WITHIN_S = 30.0
SILENT_S = 20.0
"""Several times as long as one may be silent."""


def killed(process: str) -> Injector:
    """SIGKILL one of `target.PROCESSES` of a node that carries ranks."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        node = rng.choice(target.hosts_of(lab, job))
        os.kill(target.process_pid(lab, node, process), signal.SIGKILL)
        return Done(said=f"SIGKILL to the {process} of {node.name}", node=node.name)

    return do


def daemons_stopped(lab: Lab, _job: str, _rng: Random) -> Done:
    """SIGSTOP to the daemons of all nodes, and SIGCONT a while later: nobody is heard of."""
    pids = [target.process_pid(lab, node, "daemon") for node in target.nodes(lab)]
    at_s = time.time()
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(SILENT_S)
    finally:
        for pid in pids:
            processes.kill(pid, signal.SIGCONT)
    return Done(
        said=f"the daemons of all {len(pids)} nodes stand still for {SILENT_S:g} s", at_s=at_s
    )


def keeper_killed(lab: Lab, _job: str, _rng: Random) -> Done:
    """SIGKILL to the keeper: the lab starts it again, as an operator's init would."""
    pid = target.wait_for(lambda: lab.pid("keeper") or None, "the keeper", 10.0)
    os.kill(pid, signal.SIGKILL)
    return Done(said="SIGKILL to the keeper")


def store_killed(lab: Lab, job: str, rng: Random) -> Done:
    """Kill a rank, and the store of the attempt that follows as soon as that trains.

    The first attempt may have none: what a program imports is known for sure once it has run.
    """
    time.sleep(KNOWN_S)
    before = lab.job(job)["attempt"]
    first = rank.signalled(signal.SIGKILL)(lab, job, rng)

    def trains(seen: dict[str, Any]) -> bool:
        return bool(seen["attempt"] > before and seen["phase"] == "Running")

    lab.wait(job, trains, within_s=TRAINS_WITHIN_S)
    node = target.hosts_of(lab, job)[0]
    os.kill(target.process_pid(lab, node, "rendezvous"), signal.SIGKILL)
    said = f"{first.said}, then to the rendezvous process on {node.name}"
    return Done(said=said, node=first.node, rank=first.rank, at_s=first.at_s)


def gateway_killed(lab: Lab, _job: str, _rng: Random) -> Done:
    """SIGKILL to the relay between the nodes' network and the driver: all connections end."""
    os.kill(target.cluster(lab).switch_pid, signal.SIGKILL)
    return Done(said="SIGKILL to the gateway")
