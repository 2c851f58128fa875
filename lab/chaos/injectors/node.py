"""Fault 3: a node is lost, with its connections reset or without a single packet."""

import os
import signal
from random import Random

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.inside import in_switch


def lost(lab: Lab, job: str, rng: Random) -> Done:
    """SIGKILL to the node's init: the kernel ends all of it, and its link goes too."""
    node = rng.choice(target.hosts_of(lab, job))
    os.kill(node.host_pid, signal.SIGKILL)
    return Done(said=f"{node.name} is lost", node=node.name)


def unplugged(lab: Lab, job: str, rng: Random) -> Done:
    """The node's link goes down and stays down: nobody gets a reset, it is silence."""
    node = rng.choice(target.hosts_of(lab, job))
    in_switch(target.cluster(lab), "ip", "link", "set", node.switch_interface, "down")
    return Done(said=f"the link of {node.name} is cut", node=node.name)
