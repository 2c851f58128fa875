"""Fault 47: whatever runs on one node dies there, and all that is tested of the node is well."""

import os
import signal
import time
from random import Random

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, driver
from holdfast.lab.cluster import Lab

LIVES_S = (2.0, 4.0)
"""How long ranks train there each time."""
MOST_DEATHS = 9
"""A place that has not moved by then does not move."""


def segfaults(lab: Lab, job: str, rng: Random) -> Done:
    """SIGSEGV to a rank of one node, some seconds after each start, for as long as any is there."""
    node = rng.choice(target.hosts_of(lab, job)).name
    done, deaths = Done(said="", node=node), 0
    while deaths < MOST_DEATHS and (there := _ranks_on(lab, job, node)):
        before = lab.job(job)["attempt"]
        rank = rng.choice(sorted(there))
        at_s = time.time()
        os.kill(there[rank], signal.SIGSEGV)
        done = done if deaths else Done(said="", node=node, rank=rank, at_s=at_s)
        deaths += 1
        driver.wait_for_recovery(lab, job, before)
        time.sleep(rng.uniform(*LIVES_S))
    said = f"{deaths} times SIGSEGV to a rank on {node}"
    return Done(said=said, node=node, rank=done.rank, at_s=done.at_s)


def _ranks_on(lab: Lab, job: str, node: str) -> dict[int, int]:
    """Processes of the job's ranks there, by rank."""
    pids = target.rank_pids(lab, job)
    return {rank: pid for rank, pid in pids.items() if target.node_of(lab, pid).name == node}
