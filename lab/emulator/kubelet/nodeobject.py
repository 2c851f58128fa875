"""An emulated node as Kubernetes objects: its Node, its status, its Lease. Pure.

Used by `agent`. Sizes are nominal: they are what the scheduler reckons with, not what is enforced.
"""

import platform
from typing import Any, NamedTuple

from holdfast.lab.emulator.kubelet.times import micro_stamp, stamp
from holdfast.lab.kubernetes import marks

RACK_LABEL = "topology.holdfast.dev/rack"
GPU = "nvidia.com/gpu"
VERSION = "v1.36.4+holdfast"
MOST_PODS = 110
GOOD = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID"),
    "Ready": ("True", "KubeletReady"),
}


class Shape(NamedTuple):
    """What every node of the cluster is said to have, and of which run it is."""

    cpus: int = 16
    memory_gib: int = 64
    gpus: int = 8
    lease_s: int = 40
    run: str = ""


def node(name: str, rack: str, machine: str, run: str) -> dict[str, Any]:
    """The object with which a node of this run registers."""
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
        RACK_LABEL: rack,
        marks.RUN: run,
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def status(
    seen: dict[str, Any],
    *,
    address: str,
    port: int,
    shape: Shape,
    now_s: float,
    ready: tuple[bool, str] = (True, "the runtime answers"),
) -> dict[str, Any]:
    """The status of the node now; `seen` is what it has, whose times of change are kept.

    `port`: where the API server asks for logs, on this machine's loopback.
    """
    resources = {
        "cpu": str(shape.cpus),
        "memory": f"{shape.memory_gib}Gi",
        "pods": str(MOST_PODS),
    } | ({GPU: str(shape.gpus)} if shape.gpus else {})
    return {
        "capacity": resources,
        "allocatable": resources,
        "conditions": _conditions(seen.get("conditions", []), now_s, ready),
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "InternalDNS", "address": "localhost"},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": _info(),
    }


def differs(seen: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether `seen` says anything else than `wanted`, but for the time of a heartbeat."""
    return any(_plain(seen.get(key), key) != _plain(wanted[key], key) for key in wanted)


def lease(name: str, uid: str, duration_s: int, now_s: float) -> dict[str, Any]:
    """The node's Lease, which goes when the Node goes."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": duration_s,
            "renewTime": micro_stamp(now_s),
        },
    }


def _conditions(
    seen: list[dict[str, Any]], now_s: float, ready: tuple[bool, str]
) -> list[dict[str, Any]]:
    before = {condition["type"]: condition for condition in seen}
    wanted = GOOD | ({} if ready[0] else {"Ready": ("False", "KubeletNotReady")})
    made = []
    for kind, (word, reason) in wanted.items():
        since = before.get(kind, {})
        changed = since.get("status") != word
        made.append(
            {
                "type": kind,
                "status": word,
                "reason": reason,
                "message": ready[1] if kind == "Ready" else "not measured on an emulated node",
                "lastHeartbeatTime": stamp(now_s),
                "lastTransitionTime": stamp(now_s) if changed else since["lastTransitionTime"],
            }
        )
    return made


def _info() -> dict[str, Any]:
    release = platform.release()
    return {
        "kubeletVersion": VERSION,
        "kubeProxyVersion": "",
        "kernelVersion": release,
        "osImage": "emulated node",
        "operatingSystem": "linux",
        "architecture": platform.machine(),
        "containerRuntimeVersion": "processes://1",
        "machineID": "",
        "systemUUID": "",
        "bootID": "",
    }


def _plain(part: Any, key: str) -> Any:
    if key == "conditions":
        told = [item for item in part or [] if item["type"] in GOOD]
        return sorted((item["type"], item["status"], item["reason"]) for item in told)
    return part
