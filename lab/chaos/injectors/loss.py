"""Fault 15: some of what a node sends and gets is lost, at random, without a word to anybody.

By a classic BPF program where packets come in, at both ends of its link, so that no sender's kernel
knows of it. It reads the kernel's random numbers: tc alone is needed, and a kernel with cls_bpf
(netem, which many have not, would do the same).
"""

import subprocess
import time
from collections.abc import Callable
from functools import partial
from random import Random

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.inside import NotPossible, in_node, in_switch

RANDOM = (1 << 32) - 0x1000 + 56
"""SKF_AD_OFF + SKF_AD_RANDOM of linux/filter.h: where a load finds a random word."""
DROP, PASS = 2, (1 << 32) - 1
"""TC_ACT_SHOT and TC_ACT_UNSPEC of linux/pkt_cls.h."""


def program(share: float) -> str:
    """Drops this share of packets, in the form that tc reads. Pure."""
    limit = int(share * (1 << 32))
    load, if_at_least = f"32 0 0 {RANDOM}", f"53 1 0 {limit}"
    return f"4,{load},{if_at_least},6 0 0 {DROP},6 0 0 {PASS}"


def packets_lost(share: float) -> Injector:
    """From now on, on the link of a node of the job, both ways. Raises `NotPossible`."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        node, state = rng.choice(target.hosts_of(lab, job)), target.cluster(lab)
        at_s = time.time()
        try:
            lose(partial(in_node, state, node), node.interface, share)
            lose(partial(in_switch, state), node.switch_interface, share)
        except subprocess.CalledProcessError as error:
            raise NotPossible(f"this kernel takes no such filter: {error.cmd}") from error
        said = f"{share:.0%} of the packets of {node.name} are lost, each way"
        return Done(said=said, node=node.name, at_s=at_s)

    return do


def lose(run: Callable[..., str], device: str, share: float) -> None:
    """Of what comes in there. Raises `CalledProcessError`."""
    run("tc", "qdisc", "add", "dev", device, "clsact")
    run("tc", "filter", "add", "dev", device, "ingress", "bpf", "da", "bytecode", program(share))
