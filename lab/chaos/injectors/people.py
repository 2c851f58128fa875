"""What people, and controllers of others, do to a cluster under a job that trains."""

import time
from datetime import UTC, datetime
from random import Random

from msgspec.structs import replace

from holdfast.driver.adapters.kubernetes import names, pods
from holdfast.kubeapi import paths
from holdfast.lab.chaos import target
from holdfast.lab.chaos.injectors import Done, Injector, on_kubernetes
from holdfast.lab.on_kubernetes import KubernetesLab

TAINT = "controllers.example.com/looks-bad"
NOTICE_S = 60.0
"""From a notice until the node has to be free."""
DRAINED_WITHIN_S = 150.0


@on_kubernetes
def pod_deleted(lab: KubernetesLab, job: str, rng: Random) -> Done:
    """`kubectl delete pod` of a pod whose ranks train."""
    node = rng.choice(target.hosts_of(lab, job)).name
    there = lab.plane.read(paths.pods(lab.namespace))["items"]
    name = next(pod["metadata"]["name"] for pod in there if pods.node_of(pod) == node)
    at_s = time.time()
    lab.kubectl("delete", "pod", name, "--wait=false")
    return Done(said=f"kubectl delete pod {name}, which is on {node}", node=node, at_s=at_s)


@on_kubernetes
def maintained(lab: KubernetesLab, job: str, rng: Random) -> Done:
    """A notice that a node of the job is to be free, with a time."""
    node = rng.choice(target.hosts_of(lab, job)).name
    by = datetime.fromtimestamp(time.time() + NOTICE_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = (f"{names.MAINTENANCE}=new firmware", f"{names.MAINTENANCE_BY}={by}")
    at_s = time.time()
    lab.kubectl("annotate", "node", node, *said)
    return Done(said=f"{node} is to be free within {NOTICE_S:g} s", node=node, at_s=at_s)


@on_kubernetes
def drained(lab: KubernetesLab, job: str, rng: Random) -> Done:
    """`kubectl drain` of a node of the job, which returns when no pod is left there."""
    node = rng.choice(target.hosts_of(lab, job)).name
    at_s, words = time.time(), ("--force", "--delete-emptydir-data", "--ignore-daemonsets")
    lab.plane.kubectl("drain", node, *words, within_s=DRAINED_WITHIN_S)
    return Done(said=f"kubectl drain {node}", node=node, at_s=at_s)


@on_kubernetes
def namespace_deleted(lab: KubernetesLab, _job: str, _rng: Random) -> Done:
    """`kubectl delete namespace`, the job's own with all that is in it."""
    lab.plane.kubectl("delete", "namespace", lab.namespace, "--wait=false")
    return Done(said=f"kubectl delete namespace {lab.namespace}")


@on_kubernetes
def tainted(lab: KubernetesLab, job: str, rng: Random) -> Done:
    """Another controller has its doubts about a node on which ranks train."""
    node = rng.choice(target.hosts_of(lab, job)).name
    lab.kubectl("taint", "node", node, f"{TAINT}=yes:NoSchedule")
    return Done(said=f"another controller taints {node}", node=node)


def tainted_before(other: Injector) -> Injector:
    """All nodes of the job have another controller's taint, and then a fault comes."""

    @on_kubernetes
    def do(lab: KubernetesLab, job: str, rng: Random) -> Done:
        nodes = [node.name for node in target.hosts_of(lab, job)]
        lab.kubectl("taint", "node", *nodes, f"{TAINT}=yes:NoSchedule")
        return other(lab, job, rng)

    return do


@on_kubernetes
def cordoned(lab: KubernetesLab, _job: str, _rng: Random) -> Done:
    """`kubectl cordon` of one node: no job gets it."""
    lab.kubectl("cordon", lab.joined.names[-1])
    return Done(said=f"kubectl cordon {lab.joined.names[-1]}")


def uncordoned_after(other: Injector) -> Injector:
    """What is done while that node is nobody's, and then it may be had."""

    @on_kubernetes
    def do(lab: KubernetesLab, job: str, rng: Random) -> Done:
        done = other(lab, job, rng)
        lab.kubectl("uncordon", lab.joined.names[-1])
        return replace(done, said=f"{done.said}, then kubectl uncordon {lab.joined.names[-1]}")

    return do
