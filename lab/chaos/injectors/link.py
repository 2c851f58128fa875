"""Fault 14: a node's link is slow, in both directions, for what the diagnosis has to find."""

from random import Random

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.inside import in_node, in_switch

BUCKET = "32kb"
"""One bucket of tbf: 32 KiB at 100 Mbit is 2.6 ms, so that small messages pass as before."""


def slow(rate: str = "100mbit") -> Injector:
    """Limit the link of a node that carries ranks to `rate` (in tc's words)."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        state, node = target.cluster(lab), rng.choice(target.hosts_of(lab, job))
        shape = ("root", "tbf", "rate", rate, "burst", BUCKET, "latency", "100ms")
        in_switch(state, "tc", "qdisc", "replace", "dev", node.switch_interface, *shape)
        in_node(state, node, "tc", "qdisc", "replace", "dev", node.interface, *shape)
        return Done(said=f"the link of {node.name} is limited to {rate}", node=node.name)

    return do
