"""Faults 3, 40, 43 and 46: a node, a rack or a standby is lost, with a reset or without a
packet; or is bad."""

import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from random import Random

from holdfast.diagnostics import probes
from holdfast.keeper.state import NodeRecord
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.inside import in_node, in_switch

NOTICE_S = 60.0
"""From a person's word until the node has to be free."""
TYPED_WITHIN_S = 60.0
FOUND_WITHIN_S = 90.0
FLIPS_A_BIT = """

_right = torch.Tensor.__matmul__


def _wrong(left, right):
    product = _right(left, right)
    product.view(torch.int32)[3, 5] ^= 1
    return product


torch.Tensor.__matmul__ = _wrong
"""
"""What a bad unit does: of each product one bit is another."""
HANGS = """

import time

torch.Tensor.__matmul__ = lambda left, right: time.sleep(3_600)
"""
"""What a device does that does not answer."""


def lost(lab: Lab, job: str, rng: Random) -> Done:
    """SIGKILL to the node's init: the kernel ends all of it, and its link goes too."""
    node, at_s = rng.choice(target.hosts_of(lab, job)), time.time()
    os.kill(node.host_pid, signal.SIGKILL)
    return Done(said=f"{node.name} is lost", node=node.name, at_s=at_s)


def all_lost(lab: Lab, job: str, rng: Random) -> Done:
    """SIGKILL to the inits of all nodes of the job at once: nothing is left in memory."""
    hosts, at_s = target.hosts_of(lab, job), time.time()
    for each in hosts:
        os.kill(each.host_pid, signal.SIGKILL)
    first, *others = rng.sample([each.name for each in hosts], len(hosts))
    said = f"{', '.join(each.name for each in hosts)} are lost at once"
    return Done(said=said, node=first, also=tuple(others), at_s=at_s)


def unplugged(lab: Lab, job: str, rng: Random) -> Done:
    """The node's link goes down and stays down: nobody gets a reset, it is silence."""
    node = rng.choice(target.hosts_of(lab, job))
    in_switch(target.cluster(lab), "ip", "link", "set", node.switch_interface, "down")
    return Done(said=f"the link of {node.name} is cut", node=node.name)


def asked_for(lab: Lab, job: str, rng: Random) -> Done:
    """A person types `holdfast nodes maintain` for a node of the job."""
    node = rng.choice(target.hosts_of(lab, job)).name
    at_s = time.time()
    _type(lab, "nodes", "maintain", node, "--reason", "new kernel", "--within", f"{NOTICE_S:g}")
    return Done(said=f"a person wants {node} free within {NOTICE_S:g} s", node=node, at_s=at_s)


def _type(lab: Lab, *words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "holdfast.cli", *words, "--state", str(lab.run.root)],
        check=True,
        capture_output=True,
        timeout=TYPED_WITHIN_S,
    )


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


def standby_fails_test(lab: Lab, job: str, rng: Random) -> Done:
    """A node that computes wrong has to stand by, for a person wants the one that does; who gives
    that back once the bad one is gone."""
    standby, *others = lab.job(job)["standbys"]  # beside which it fails a second time
    known = {standby, *others, *(node.name for node in target.hosts_of(lab, job))}
    bad = next(node for node in target.nodes(lab) if node.name not in known)
    _change_test(lab, bad, FLIPS_A_BIT)
    at_s = time.time()
    _type(lab, "nodes", "maintain", standby, "--reason", "new fan")
    target.wait_for(lambda: is_evicted(lab, bad), f"eviction of {bad.name}", FOUND_WITHIN_S)
    _type(lab, "nodes", "restore", standby, "--reason", "it has one")
    said = f"{bad.name} computes wrong, and takes the place of standby {standby}"
    return Done(said=said, node=bad.name, at_s=at_s)


def standby_test_hangs(lab: Lab, job: str, rng: Random) -> Done:
    """A node whose test never ends has to stand by, for a person wants the one that does. Once that
    is known of it, it is the only one that can take the place of a node that is lost."""
    (standby,) = lab.job(job)["standbys"]
    known = {standby, *(node.name for node in target.hosts_of(lab, job))}
    bad = next(node for node in target.nodes(lab) if node.name not in known)
    _change_test(lab, bad, HANGS)
    _type(lab, "nodes", "maintain", standby, "--reason", "new fan")
    untested = f"standby {bad.name} could not be tested"
    told = partial(_was_decided, lab, untested)
    target.wait_for(told, f"word that the test of {bad.name} did not end", FOUND_WITHIN_S)
    done = lost(lab, job, rng)
    said = f"the test of standby {bad.name} hangs, and {done.said}"
    return Done(said=said, node=done.node, also=(bad.name,), at_s=done.at_s)


def _was_decided(lab: Lab, words: str) -> bool:
    return any(words in entry.why for entry in lab.entries())


def _change_test(lab: Lab, node: NodeRecord, added: str) -> None:
    """In the node's own mounts, so that it is that node's alone. (Its test's products, that is: no
    rank ever comes there.)"""
    good = Path(probes.__file__).resolve().parent
    bad = lab.run.root / "probes-of-a-bad-node"
    shutil.copytree(good, bad, ignore=shutil.ignore_patterns("__pycache__"))
    with (bad / "compute.py").open("a") as file:
        file.write(added)
    in_node(target.cluster(lab), node, "mount", "--bind", str(bad), str(good))


def is_evicted(lab: Lab, node: NodeRecord) -> bool:
    states: dict[str, str] = {each["name"]: each["state"] for each in lab.nodes()}
    return states[node.name] == "quarantined"
