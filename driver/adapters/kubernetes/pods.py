"""The pod of a job on a node: its manifest, and what can be read off one. Pure.

Used by `cluster` and `identity`. A pod has one container, whose first process keeps an executor and
a daemon alive (`holdfast.keeper.pod`); it outlives recoveries, so nothing of an epoch is in it.
"""

from collections.abc import Mapping
from datetime import datetime
from math import inf
from typing import Any, NamedTuple

from holdfast.driver.adapters.kubernetes import names
from holdfast.protocol import nodeenv

Json = Mapping[str, Any]

FOLDER = "/run/holdfast"
SCRATCH = f"{FOLDER}/scratch"
MEMORY = f"{FOLDER}/memory"
TOKEN = f"{FOLDER}/identity/token"
SHARED_MEMORY = "/dev/shm"

LEAVES_WITHIN_S = 120
"""How long a pod that somebody deletes or evicts may still work: what its ranks have in memory is
saved, and they move. It ends by itself as soon as that is done."""

TOKEN_S = 3_600
"""How long a token is good; the kubelet writes another when four fifths of it are over."""

PROBE_PORT = 7_946
"""Where daemons answer each other's probes: every pod has an address of its own."""

STAYS = [
    {"key": key, "operator": "Exists", "effect": "NoExecute"}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
]
"""Without a time: else the API server gives five minutes and pods are deleted behind our back."""

GATED: Json = {"schedulingGates": [{"name": names.GATE}]}
"""Of the spec of a pod that is not to be placed before its gate is taken off."""

GROUP = "schedulingGroup"
"""Field of a pod's spec that names its PodGroup."""


class Order(NamedTuple):
    """One pod that is wanted. `job` is the TrainingJob object, as it was read; `held` are fields of
    the pod's spec that keep it from being placed before all of its start are there.
    """

    job: Json
    node: str
    slot: int
    incarnation: int
    drivers: nodeenv.Drivers
    held: Json | None = None

    @property
    def name(self) -> str:
        return names.pod_name(self.job["metadata"]["name"], self.slot, self.incarnation)


def manifest(order: Order) -> dict[str, Any]:
    """What is posted to have the pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(order),
        "spec": spec_of(order),
    }


def _metadata(order: Order) -> dict[str, Any]:
    job = order.job["metadata"]
    labels = {
        "app.kubernetes.io/name": names.MANAGER,
        "app.kubernetes.io/component": "executor",
        "app.kubernetes.io/managed-by": names.MANAGER,
        names.JOB: job["name"],
        names.JOB_UID: job["uid"],
        names.SLOT: str(order.slot),
        names.INCARNATION: str(order.incarnation),
    }
    return {
        "name": order.name,
        "namespace": job["namespace"],
        "labels": labels,
        "annotations": {names.NODE: order.node},
        "ownerReferences": [owned_by(order.job)],
    }


def owned_by(job: Json) -> dict[str, Any]:
    """The owner reference of what goes with its TrainingJob."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }


def spec_of(order: Order) -> dict[str, Any]:
    """What runs in the pod, and where."""
    template = order.job["spec"]["pod"]
    spec = {
        **(order.held or {}),
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": LEAVES_WITHIN_S,
        "affinity": {"nodeAffinity": _only_on(order.node)},
        "tolerations": [*STAYS, *template.get("tolerations", ())],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(order, template)],
        "volumes": _volumes(template),
    }
    for field in ("serviceAccountName", "imagePullSecrets", "priorityClassName"):
        if template.get(field):
            spec[field] = template[field]
    return spec


def _only_on(node: str) -> dict[str, Any]:
    """By name and through the scheduler, which still minds resources and taints."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _container(order: Order, template: Json) -> dict[str, Any]:
    security: dict[str, Any] = {"allowPrivilegeEscalation": False}
    if template.get("rdmaDevices"):
        security["capabilities"] = {"add": ["IPC_LOCK"]}  # devices read and write pinned memory
    return {
        "name": "executor",
        "image": template["image"],
        "command": ["python", "-m", "holdfast.keeper.pod"],
        "env": _environment(order),
        "resources": _resources(template),
        "volumeMounts": _mounts(template),
        "securityContext": security,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _resources(template: Json) -> dict[str, Any]:
    """Devices are asked for as limits: for what is not cpu or memory the requests are the same."""
    asked = template.get("resources", {})
    limits = {**asked.get("limits", {}), **template.get("rdmaDevices", {})}
    return {"requests": asked.get("requests", {}), "limits": limits}


def _environment(order: Order) -> list[dict[str, Any]]:
    values = {
        **order.drivers.environment(),
        nodeenv.TOKEN_FILE: TOKEN,
        nodeenv.SCRATCH: SCRATCH,
        nodeenv.MEMORY: MEMORY,
        nodeenv.PROBE_PORT: str(PROBE_PORT),
    }
    fields = {nodeenv.NODE: "spec.nodeName", nodeenv.ADDRESS: "status.podIP"}
    return [
        *({"name": name, "value": value} for name, value in values.items()),
        *(
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in fields.items()
        ),
    ]


def _volumes(template: Json) -> list[dict[str, Any]]:
    token = {"path": "token", "audience": names.AUDIENCE, "expirationSeconds": TOKEN_S}
    identity = {"sources": [{"serviceAccountToken": token}]}
    own: list[dict[str, Any]] = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "identity", "projected": identity},
    ]
    if template.get("shm"):
        shm = {"medium": "Memory", "sizeLimit": template["shm"]}
        own.append({"name": "shm", "emptyDir": shm})
    return own + [
        {key: value for key, value in volume.items() if key not in ("mountPath", "readOnly")}
        for volume in template.get("volumes", ())
    ]


def _mounts(template: Json) -> list[dict[str, Any]]:
    own: list[dict[str, Any]] = [
        {"name": "scratch", "mountPath": SCRATCH},
        {"name": "memory", "mountPath": MEMORY},
        {"name": "identity", "mountPath": TOKEN.rpartition("/")[0], "readOnly": True},
    ]
    if template.get("shm"):
        own.append({"name": "shm", "mountPath": SHARED_MEMORY})
    return own + [
        {key: volume[key] for key in ("name", "mountPath", "readOnly") if key in volume}
        for volume in template.get("volumes", ())
    ]


# ---------------------------------------------------------------- reading one


def owner_uid(pod: Json) -> str:
    """UID of the TrainingJob that controls the pod, or of the Node that it tests; "" where neither
    does.
    """
    for owner in pod["metadata"].get("ownerReferences", ()):
        tests = on_trial(pod) and owner["kind"] == "Node"
        if owner.get("controller") and (tests or owner["apiVersion"].startswith(f"{names.GROUP}/")):
            return str(owner["uid"])
    return ""


def on_trial(pod: Json) -> bool:
    """Whether it tests its node, and is no job's."""
    return names.TRIAL in pod["metadata"].get("labels", {})


def node_of(pod: Json) -> str:
    """The node that a pod of ours is for; "" for a pod that is none of ours."""
    return str(pod["metadata"].get("annotations", {}).get(names.NODE, ""))


def number(pod: Json, label: str) -> int:
    """Slot or incarnation of a pod of ours."""
    return int(pod["metadata"].get("labels", {}).get(label, "0"))


def bound(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName"))


def gated(pod: Json) -> bool:
    """Whether it has our gate, which waits for the others of its job's start."""
    gates = pod.get("spec", {}).get("schedulingGates", ())
    return any(gate["name"] == names.GATE for gate in gates)


def group_of(pod: Json) -> str:
    """Name of the PodGroup that it is in, "" where it is in none."""
    return str(pod["spec"].get(GROUP, {}).get("podGroupName", ""))


def held(pod: Json) -> bool:
    """Whether no scheduler places it before the others of its job's start are there."""
    return gated(pod) or (bool(group_of(pod)) and not bound(pod))


def ending(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def grace_s(pod: Json) -> float:
    """From its deletion until its node kills what is left of it, in seconds."""
    return float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)


def works_for_s(pod: Json, now: datetime) -> float:
    """How long its processes may still work, in seconds: for ever, until it is being deleted."""
    if pod.get("status", {}).get("phase") != "Running":
        return 0.0
    if not ending(pod):
        return inf
    due = datetime.fromisoformat(pod["metadata"]["deletionTimestamp"])
    return max(0.0, (due - now).total_seconds())


def disruption(pod: Json) -> str:
    """Why the cluster evicts the pod, in its own words; "" where it does not."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            return str(condition.get("message") or condition.get("reason", "no reason given"))
    return ""


def end(pod: Json) -> str:
    """Why the pod ends, or is over, in a sentence; "" while it is to stay. It restarts Always."""
    status = pod.get("status", {})
    if said := disruption(pod):
        return f"pod {pod['metadata']['name']} is evicted: {said}"
    if ending(pod):
        return f"pod {pod['metadata']['name']} is deleted"
    if status.get("phase") not in ("Failed", "Succeeded"):
        return ""
    said = ": ".join(filter(None, (status.get("reason"), status.get("message"))))
    return f"pod {pod['metadata']['name']} is {status['phase']}{f' ({said})' if said else ''}"


def hindrance(pod: Json) -> str:
    """What keeps the pod from running, as its scheduler or its kubelet says it; "" if nothing.

    Our own gate is none: what it waits for is said of the job.
    """
    status = pod.get("status", {})
    for condition in () if gated(pod) else status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition.get("reason", ""))
    for container in status.get("containerStatuses", ()):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason", "ContainerCreating") != "ContainerCreating":
            return ": ".join(filter(None, (waiting["reason"], waiting.get("message"))))
    return ""


def ready(pod: Json) -> bool:
    """Whether its kubelet says that it runs."""
    conditions = pod.get("status", {}).get("conditions", ())
    said = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return said and not ending(pod)
