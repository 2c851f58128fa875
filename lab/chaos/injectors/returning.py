"""Fault 44: a node that was given up comes back, with all that ran on it as it was.

Its kubelet is frozen, so that nobody there hears that its pod is not wanted: what is left over goes
on writing, and only the fence keeps it out.
"""

import os
import signal
from random import Random

from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, checkpoint, on_kubernetes
from holdfast.lab.emulator.kubelet.knobs import Knobs
from holdfast.lab.on_kubernetes import KubernetesLab

GONE_ON_WITHIN_S = 60.0


@on_kubernetes
def returned(lab: KubernetesLab, job: str, _rng: Random) -> Done:
    """The node of rank 0 is cut off in the middle of a save, which it ends when it is back."""
    node, before = target.hosts_of(lab, job)[0], lab.job(job)["epoch"]
    agent = target.process_pid(lab, node, "agent")
    torn = checkpoint.under_way(lab, job)
    os.kill(agent, signal.SIGSTOP)
    lab.joined.turn(node.name, Knobs(frozen=True))
    done = Done(
        said=f"{node.name} comes back after its job went on elsewhere, and ends {torn.name}",
        node=node.name,
    )
    lab.joined.unplug(node.name)

    def went_on() -> bool:
        seen = lab.job(job)
        return bool(seen["epoch"] > before and seen["phase"] == "Running")

    target.wait_for(went_on, f"{job} in another epoch", GONE_ON_WITHIN_S)
    lab.joined.plug(node.name)
    os.kill(agent, signal.SIGCONT)
    return done
