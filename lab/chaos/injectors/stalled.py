"""Fault 33: a rank waits for a disk that does not answer, and not even SIGKILL ends it."""

import subprocess
import sys
import time
from random import Random

from holdfast.keeper import processes
from holdfast.kit import procstat
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, node, user_bug
from holdfast.lab.chaos.scripts import stalling
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.inside import NotPossible, path_in
from holdfast.lab.emulator.namespaces import Kind

WITHIN_S = 30.0
GIVEN_UP_WITHIN_S = 180.0


def rank_unkillable(lab: Lab, job: str, rng: Random) -> Done:
    """Until its node is evicted; then the read fails, as it would if the machine were restarted."""
    pids = target.rank_pids(lab, job)
    victim = rng.choice(sorted(pids))
    host = target.node_of(lab, pids[victim])
    if target.cluster(lab).kind.startswith(Kind.LOOPBACK):
        raise NotPossible(f"nodes are made of {target.cluster(lab).kind}")
    folder = f"{host.folder}/scratch/stalled"
    command = [sys.executable, "-m", stalling.__name__, str(host.host_pid), folder]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        file = path_in(host, folder) / stalling.FILE
        target.wait_for(lambda: server.poll() is None and file.exists(), "a stalled disk", WITHIN_S)
        bugs = user_bug.folder_of(lab, job)
        (bugs / "stalled").write_text(f"{folder}/{stalling.FILE}")
        at_s = time.time()
        (bugs / f"stall.rank{victim}").touch()
        target.wait_for(lambda: _is_stuck(pids[victim]), "a rank that waits for it", WITHIN_S)
        target.wait_for(
            lambda: node.is_evicted(lab, host), f"{host.name} evicted", GIVEN_UP_WITHIN_S
        )
    finally:
        server.kill()
        processes.wait_gone([server.pid], WITHIN_S)
        server.wait()
    said = f"rank {victim} on {host.name} reads from a disk that does not answer"
    return Done(said=said, node=host.name, rank=victim, at_s=at_s)


def _is_stuck(pid: int) -> bool:
    seen = procstat.stat(pid)
    return seen is not None and seen.state in "DS"
