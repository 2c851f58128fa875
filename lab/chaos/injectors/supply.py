"""Fault 38: what a job's pods need is not there, and comes while the job waits.

Each waits until the job says of itself what it lacks: a person has to be able to read it.
"""

import json
from random import Random

from holdfast.kubeapi import paths
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, on_kubernetes
from holdfast.lab.on_kubernetes import KubernetesLab

DEVICE = "devices.example.com/fast"
IMAGE = "registry.example.com/training:2"
SAID_WITHIN_S = 60.0


@on_kubernetes
def devices_are_out(lab: KubernetesLab, _job: str, _rng: Random) -> Done:
    """Every node has the device, and all of them are broken."""
    _offer(lab, 0)
    return Done(said=f"no node has a {DEVICE} left")


@on_kubernetes
def devices_come(lab: KubernetesLab, job: str, _rng: Random) -> Done:
    """They are mended once the job has said that it lacks them."""
    _wait_for_words(lab, job, f"it has no {DEVICE}")
    _offer(lab, 8)
    return Done(said=f"every node gets {DEVICE}")


@on_kubernetes
def image_comes(lab: KubernetesLab, job: str, _rng: Random) -> Done:
    """The image is pushed once the job has said that it cannot be pulled."""
    _wait_for_words(lab, job, IMAGE)
    lab.joined.push(IMAGE)
    return Done(said=f"{IMAGE} is pushed")


def _offer(lab: KubernetesLab, count: int) -> None:
    """As a device plugin would, by the node's status."""
    offered = {DEVICE: str(count)}
    body = json.dumps({"status": {"capacity": offered, "allocatable": offered}})
    for node in target.nodes(lab):
        lab.kubectl("patch", "node", node.name, "--subresource=status", f"--patch={body}")


def _wait_for_words(lab: KubernetesLab, job: str, words: str) -> None:
    """Raises `NotThere` where the condition of the job never says so."""

    def said() -> bool:
        found = lab.plane.read(paths.training_jobs(lab.namespace, job))
        conditions = found.get("status", {}).get("conditions", ())
        return any(each["type"] == "Allocated" and words in each["message"] for each in conditions)

    target.wait_for(said, f"{words!r} in the condition Allocated of {job}", SAID_WITHIN_S)
