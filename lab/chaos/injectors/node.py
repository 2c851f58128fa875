"""Faults 3, 40 and 43: a node, a rack or a standby is lost, with a reset or without a packet."""

import os
import signal
import subprocess
import sys
import time
from random import Random

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.inside import in_switch

NOTICE_S = 60.0
"""From a person's word until the node has to be free."""
TYPED_WITHIN_S = 60.0


def lost(lab: Lab, job: str, rng: Random) -> Done:
    """SIGKILL to the node's init: the kernel ends all of it, and its link goes too."""
    node, at_s = rng.choice(target.hosts_of(lab, job)), time.time()
    os.kill(node.host_pid, signal.SIGKILL)
    return Done(said=f"{node.name} is lost", node=node.name, at_s=at_s)


def unplugged(lab: Lab, job: str, rng: Random) -> Done:
    """The node's link goes down and stays down: nobody gets a reset, it is silence."""
    node = rng.choice(target.hosts_of(lab, job))
    in_switch(target.cluster(lab), "ip", "link", "set", node.switch_interface, "down")
    return Done(said=f"the link of {node.name} is cut", node=node.name)


def asked_for(lab: Lab, job: str, rng: Random) -> Done:
    """A person types `holdfast nodes maintain` for a node of the job."""
    node = rng.choice(target.hosts_of(lab, job)).name
    typed = ["nodes", "maintain", node, "--reason", "new kernel", "--within", f"{NOTICE_S:g}"]
    at_s = time.time()
    subprocess.run(
        [sys.executable, "-m", "holdfast.cli", *typed, "--state", str(lab.run.root)],
        check=True,
        capture_output=True,
        timeout=TYPED_WITHIN_S,
    )
    return Done(said=f"a person wants {node} free within {NOTICE_S:g} s", node=node, at_s=at_s)


def rack_lost(lab: Lab, job: str, rng: Random) -> Done:
    """SIGKILL to the inits of all nodes of a rack in which ranks train, one right after another."""
    victim = rng.choice(target.hosts_of(lab, job))
    rack = [node for node in target.nodes(lab) if node.rack == victim.rack]
    for node in rack:
        os.kill(node.host_pid, signal.SIGKILL)
    also = tuple(node.name for node in rack if node.name != victim.name)
    said = f"{', '.join(node.name for node in rack)} are lost, all of {victim.rack}"
    return Done(said=said, node=victim.name, also=also)


def standby_bad(lab: Lab, job: str, rng: Random) -> Done:
    """A standby is cut off at the moment in which it is needed: a node of the job is lost."""
    standbys = lab.job(job)["standbys"]
    standby = next(node for node in target.nodes(lab) if node.name in standbys)
    in_switch(target.cluster(lab), "ip", "link", "set", standby.switch_interface, "down")
    done = lost(lab, job, rng)
    said = f"the link of standby {standby.name} is cut, and {done.said}"
    return Done(said=said, node=done.node, also=(standby.name,), at_s=done.at_s)
