"""Fault 44: a node that was given up comes back, with all that ran on it as it was.

Its kubelet is frozen, so that nobody there hears that its pod is not wanted: what is left over goes
on writing, and only the fence keeps it out.
"""

import os
import signal
from pathlib import Path
from random import Random

from holdfast.checkpoint import layout
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, checkpoint, driver, on_kubernetes
from holdfast.lab.emulator.kubelet.knobs import Knobs
from holdfast.lab.on_kubernetes import KubernetesLab

WITHIN_S = 60.0
SAVES = 20
"""So many are tried to be met in the middle."""


@on_kubernetes
def returned(lab: KubernetesLab, job: str, _rng: Random) -> Done:
    """The node of rank 0 is cut off in the middle of a save, which it ends once others go on."""
    node, before = target.hosts_of(lab, job)[0], lab.job(job)["epoch"]
    agent = target.process_pid(lab, node, "agent")
    ranks = target.rank_pids(lab, job)
    others = [rank for rank, pid in ranks.items() if target.node_of(lab, pid).name != node.name]
    save = _stopped_in_a_save(lab, job, agent, others)
    lab.joined.turn(node.name, Knobs(frozen=True))
    done = Done(
        said=f"{node.name} ends {save.name} after its job went on elsewhere, and comes back",
        node=node.name,
    )
    lab.joined.unplug(node.name)
    target.wait_for(lambda: _fenced(save) > before, "a fence of a later epoch", WITHIN_S)
    os.kill(agent, signal.SIGCONT)
    target.wait_for(lambda: _has_parts(save, [*ranks]), f"the rest of {save.name}", WITHIN_S)
    driver.wait_for_recovery(lab, job, before)
    lab.joined.plug(node.name)
    return done


def _stopped_in_a_save(lab: KubernetesLab, job: str, agent: int, others: list[int]) -> Path:
    """The folder of a save that waits for this agent alone, which is stopped (SIGSTOP)."""
    for _ in range(SAVES):
        save = checkpoint.under_way(lab, job)
        os.kill(agent, signal.SIGSTOP)
        stopped = False
        try:
            target.wait_for(lambda: _has_parts(save, others), f"parts in {save.name}", WITHIN_S)  # noqa: B023
            stopped = not (save / layout.MANIFEST).exists()
        finally:
            if not stopped:
                os.kill(agent, signal.SIGCONT)  # it was faster
        if stopped:
            return save
    raise target.NotThere(f"a save that is not over when the agent is stopped, of {SAVES}")


def _has_parts(save: Path, ranks: list[int]) -> bool:
    """What these ranks have to write of it is there, or all of it is done."""
    parts = [save / layout.part_name(rank) for rank in ranks]
    return (save / layout.MANIFEST).exists() or all(part.exists() for part in parts)


def _fenced(save: Path) -> int:
    """The newest epoch that has begun, by the store."""
    fences = [layout.parse_fence(entry.name) for entry in save.parent.iterdir()]
    return max((epoch for epoch in fences if epoch is not None), default=0)
