"""Faults 17, 18, 20, 29 and 31: of what a machine has words and counters alone, in the kernel's
log, of a GPU's driver, of a NIC; and a link whose carrier goes down and comes back.
"""

import time
from pathlib import Path
from random import Random

from holdfast.keeper.state import KeeperState, NodeRecord
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator import gpus
from holdfast.lab.emulator.counters import DEVICE, LANES
from holdfast.lab.emulator.inside import NotPossible, in_switch, path_in
from holdfast.lab.emulator.namespaces import Kind

PRIORITY = 3
"""LOG_ERR of the kernel's own facility: /dev/kmsg begins a record with it."""
DOWN_S, LONG_S = 0.4, 3.0
"""Shorter, and longer, than a node may be silent and its neighbours be without an answer."""
BETWEEN_S = 5.0
ERRORS = 7


def kernel_says(line: str) -> Injector:
    """A record of the kernel's own in the log of a node of the job."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        node = rng.choice(target.hosts_of(lab, job))
        uptime_us = time.monotonic_ns() // 1_000
        at_s = time.time()
        with (_scratch(lab, node) / "kmsg").open("a") as log:
            log.write(f"{PRIORITY},{rng.randrange(1 << 20)},{uptime_us},-;{line}\n")
        return Done(said=f"the kernel of {node.name} says: {line}", node=node.name, at_s=at_s)

    return do


def gpu_is(**figures: int | str) -> Injector:
    """What the driver of a GPU of a node of the job says of it."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        node, at_s = rng.choice(target.hosts_of(lab, job)), time.time()
        gpus.tell(_scratch(lab, node), 0, **figures)
        words = ", ".join(f"{name} {value}" for name, value in figures.items())
        return Done(said=f"GPU 0 of {node.name}: {words}", node=node.name, at_s=at_s)

    return do


def errors_counted(lab: Lab, job: str, rng: Random) -> Done:
    """A NIC counts errors, and nothing else is wrong."""
    node, at_s = rng.choice(target.hosts_of(lab, job)), time.time()
    port = f"sys/class/infiniband/{DEVICE}/ports/1/counters"
    (_scratch(lab, node) / port / "symbol_error").write_text(f"{ERRORS}\n")
    return Done(said=f"{ERRORS} symbol errors on {node.name}", node=node.name, at_s=at_s)


def bus_narrow(lab: Lab, job: str, rng: Random) -> Done:
    """A NIC has half of its lanes of PCIe, as after a reset, and nothing else is wrong."""
    node, at_s = rng.choice(target.hosts_of(lab, job)), time.time()
    device = f"sys/class/infiniband/{DEVICE}/device"
    (_scratch(lab, node) / device / "current_link_width").write_text(f"{LANES // 2}\n")
    said = f"{DEVICE} of {node.name} has {LANES // 2} lanes"
    return Done(said=said, node=node.name, at_s=at_s)


def link_flaps(times: int, down_s: float = DOWN_S) -> Injector:
    """The carrier of a node's link is gone for a moment, and comes back."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        node, at_s = rng.choice(target.hosts_of(lab, job)), time.time()
        for nth in range(times):
            time.sleep(BETWEEN_S if nth else 0.0)
            at_s = time.time()  # the last is what counts
            _set(target.cluster(lab), node, "down")
            time.sleep(down_s)
            _set(target.cluster(lab), node, "up")
        said = f"the link of {node.name} is down for {down_s:g} s, {times} times"
        return Done(said=said, node=node.name, at_s=at_s)

    return do


def _set(state: KeeperState, node: NodeRecord, updown: str) -> None:
    in_switch(state, "ip", "link", "set", node.switch_interface, updown)


def _scratch(lab: Lab, node: NodeRecord) -> Path:
    """Raises `NotPossible`: nodes that share this machine's files have no log of their own."""
    if target.cluster(lab).kind.startswith(Kind.LOOPBACK):
        raise NotPossible(f"nodes are made of {target.cluster(lab).kind}")
    return path_in(node, f"{node.folder}/scratch")
