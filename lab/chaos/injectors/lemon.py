"""Fault 47: whatever runs on a node dies there, and all that is tested of the node is well."""

import os
import signal
import time
from random import Random

from msgspec.structs import replace

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector, driver
from holdfast.lab.cluster import Lab

LIVES_S = (2.0, 4.0)
"""How long ranks train there each time."""
MOST_DEATHS = 9
"""On one lemon: a place that has not moved by then does not move."""


def segfaulting(lemons: int = 1) -> Injector:
    """SIGSEGV to a rank of one of so many nodes, some seconds after each start, for as long as any
    is there."""

    def do(lab: Lab, job: str, rng: Random) -> Done:
        nodes = sorted(node.name for node in rng.sample(target.hosts_of(lab, job), lemons))
        deaths: list[Done] = []
        while len(deaths) < MOST_DEATHS * lemons and (there := _ranks_on(lab, job, nodes)):
            before = lab.job(job)["attempt"]
            deaths.append(_segfault(there, rng))
            driver.wait_for_recovery(lab, job, before)
            time.sleep(rng.uniform(*LIVES_S))
        said = f"{len(deaths)} times SIGSEGV to a rank on {' or '.join(nodes)}"
        also = tuple(node for node in nodes if node != deaths[0].node)
        return replace(deaths[0], said=said, also=also)

    return do


def _segfault(there: dict[int, tuple[int, str]], rng: Random) -> Done:
    rank = rng.choice(sorted(there))
    (pid, node), at_s = there[rank], time.time()
    os.kill(pid, signal.SIGSEGV)
    return Done(said="", node=node, rank=rank, at_s=at_s)


def _ranks_on(lab: Lab, job: str, nodes: list[str]) -> dict[int, tuple[int, str]]:
    """Process and node of the job's ranks there, by rank."""
    pids = target.rank_pids(lab, job).items()
    there = {rank: (pid, target.node_of(lab, pid).name) for rank, pid in pids}
    return {rank: found for rank, found in there.items() if found[1] in nodes}
