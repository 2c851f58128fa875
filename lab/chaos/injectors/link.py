"""Faults 14, 16 and 19: a node's link is slow in both directions, and its ranks do not survive it,
or packets are late; or what one node sends to one other is lost, or what two send to each other,
and nothing else is.

The slow link alone only slows training. What the diagnosis has to find out is why a rank of that
node dies again and again, so the injector kills it whenever it is back, for as long as it is there.
"""

import time
from random import Random

from msgspec.structs import replace

from holdfast.keeper import processes
from holdfast.keeper.state import KeeperState, NodeRecord
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.inside import cut_one_way, in_node, in_switch

BUCKET = "32kb"
"""One bucket of tbf: 32 KiB at 100 Mbit is 2.6 ms, so that small messages pass as before."""
LIVES_S = 0.3
"""How long a rank lives on it: it has started, and is about to train."""
MOST_LIVES = 8
GONE_WITHIN_S = 60.0


def slow_and_deadly(rate: str = "100mbit") -> Injector:
    """Limit the link of a node to `rate` (in tc's words), and kill one of its ranks each time."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        node = rng.choice(target.hosts_of(lab, job))
        rank = rng.choice(_ranks_on(lab, job, node))
        _slow(target.cluster(lab), node, rate)
        slow_s = time.time()
        lives = 0
        while lives < MOST_LIVES and (pid := _next_life(lab, job, rank, node)):
            time.sleep(LIVES_S)
            lives += processes.kill(pid)
        said = f"the link of {node.name} has {rate}, and its rank {rank} died {lives} times"
        return Done(said=said, node=node.name, rank=rank, at_s=slow_s)

    return do


def slow(rate: str) -> Injector:
    """Limit the link of a node to `rate` (in tc's words), each way, from now on."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        node, at_s = rng.choice(target.hosts_of(lab, job)), time.time()
        _slow(target.cluster(lab), node, rate)
        return Done(said=f"the link of {node.name} has {rate}", node=node.name, at_s=at_s)

    return do


def packets_late(rate: str, latency: str) -> Injector:
    """From now on packets of a node of the job, both ways, stand in a queue before they go, for
    `latency` at most (in tc's words)."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        node, at_s = rng.choice(target.hosts_of(lab, job)), time.time()
        _slow(target.cluster(lab), node, rate, latency)
        said = f"packets of {node.name} are up to {latency} late, each way"
        return Done(said=said, node=node.name, at_s=at_s)

    return do


def one_way(lab: Lab, job: str, rng: Random) -> Done:
    """What one node of the job sends to another is lost from now on."""
    return _cut(lab, *rng.sample(target.hosts_of(lab, job), 2))


def both_ways(lab: Lab, job: str, rng: Random) -> Done:
    """Two nodes of the job cannot reach each other from now on, and all others reach both."""
    one, other = rng.sample(target.hosts_of(lab, job), 2)
    _cut(lab, one, other)
    there = _cut(lab, other, one)
    said = f"{one.name} and {other.name} cannot reach each other"
    return replace(there, said=said, node=one.name, also=(other.name,))


def one_way_from_the_start(lab: Lab, _job: str, _rng: Random) -> Done:
    """The same of the two nodes that a job gets first, before there is one: they never meet."""
    return _cut(lab, *target.nodes(lab)[:2])


def still_cut(lab: Lab, _job: str, _rng: Random) -> Done:
    """Nothing is done but what was done before the job came."""
    sender, receiver = target.nodes(lab)[:2]
    return Done(said=f"its ranks cannot meet: {_CUT.format(sender.name, receiver.name)}")


_CUT = "what {} sends to {} is lost"


def _cut(lab: Lab, sender: NodeRecord, receiver: NodeRecord) -> Done:
    at_s = time.time()
    cut_one_way(target.cluster(lab), sender, receiver)
    said = _CUT.format(sender.name, receiver.name)
    return Done(said=said, node=sender.name, also=(receiver.name,), at_s=at_s)


def _slow(state: KeeperState, node: NodeRecord, rate: str, latency: str = "100ms") -> None:
    shape = ("root", "tbf", "rate", rate, "burst", BUCKET, "latency", latency)
    in_switch(state, "tc", "qdisc", "replace", "dev", node.switch_interface, *shape)
    in_node(state, node, "tc", "qdisc", "replace", "dev", node.interface, *shape)


def _ranks_on(lab: Lab, job: str, node: NodeRecord) -> list[int]:
    pids = target.rank_pids(lab, job)
    return [rank for rank, pid in pids.items() if target.node_of(lab, pid).name == node.name]


def _next_life(lab: Lab, job: str, rank: int, node: NodeRecord) -> int | None:
    """The rank's process once it runs on the node; None once it runs on another."""
    pid = target.rank_pid(lab, job, rank, within_s=GONE_WITHIN_S)
    return pid if target.node_of(lab, pid).name == node.name else None
