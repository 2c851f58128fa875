"""The manifest of a job's pod on a node. Pure.

Used by `placing` and `exampods`. A pod has one container, whose first process keeps an executor
and a daemon alive (`holdfast.keeper.pod`); it outlives recoveries, so nothing of an epoch is in it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.driver.adapters.kubernetes import names, requests
from holdfast.protocol import nodeenv

Json = Mapping[str, Any]

FOLDER = "/run/holdfast"
SCRATCH = f"{FOLDER}/scratch"
MEMORY = f"{FOLDER}/memory"
TOKEN = f"{FOLDER}/identity/token"
TRACES_PASSWORD = f"{FOLDER}/traces/password"
TRACES_VOLUME = "holdfast-traces"
"""A job may well have a volume of its own that is called traces."""
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

EXECUTOR = "executor"
"""The name of the container in which it runs."""
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
        "volumes": [*_volumes(template), *_secret_of_traces(order.drivers.traces_secret)],
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
    if template.get("rdmaDevices"):  # they read and write pinned memory; it serves root alone
        security["capabilities"] = {"add": ["IPC_LOCK"]}
    return {
        "name": EXECUTOR,
        "image": template["image"],
        "command": ["python", "-m", "holdfast.keeper.pod"],
        "env": [*_environment(order), *_secrets(template)],
        "resources": _resources(template),
        "volumeMounts": _mounts(template, order.drivers),
        "securityContext": security,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def memory_limit(template: Json) -> int:
    """Of all that runs in the container, in bytes; 0 where it has none."""
    limit = template.get("resources", {}).get("limits", {}).get("memory", 0)
    return requests.amount(limit) // 1000


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
        nodeenv.SHOW_OUTPUT: "yes",
    }
    if order.drivers.traces_secret:
        values[nodeenv.TRACES_PASSWORD_FILE] = TRACES_PASSWORD
    fields = {nodeenv.NODE: "spec.nodeName", nodeenv.ADDRESS: "status.podIP"}
    return [
        *({"name": name, "value": value} for name, value in values.items()),
        *(
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in fields.items()
        ),
    ]


def _secrets(template: Json) -> list[dict[str, Any]]:
    """Variables whose values the kubelet alone reads."""
    return [
        {
            "name": each["name"],
            "valueFrom": {"secretKeyRef": {"name": each["secretName"], "key": each["key"]}},
        }
        for each in template.get("secretEnv", ())
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


def _secret_of_traces(name: str) -> list[dict[str, Any]]:
    """A job is not to wait for it: without it spans are lost, and nothing else."""
    items = [{"key": "password", "path": "password"}]
    secret = {"secretName": name, "items": items, "optional": True}
    return [{"name": TRACES_VOLUME, "secret": secret}] if name else []


def _mounts(template: Json, drivers: nodeenv.Drivers) -> list[dict[str, Any]]:
    own: list[dict[str, Any]] = [
        {"name": "scratch", "mountPath": SCRATCH},
        {"name": "memory", "mountPath": MEMORY},
        {"name": "identity", "mountPath": TOKEN.rpartition("/")[0], "readOnly": True},
    ]
    if template.get("shm"):
        own.append({"name": "shm", "mountPath": SHARED_MEMORY})
    if drivers.traces_secret:
        at = TRACES_PASSWORD.rpartition("/")[0]
        own.append({"name": TRACES_VOLUME, "mountPath": at, "readOnly": True})
    return own + [
        {key: volume[key] for key in ("name", "mountPath", "readOnly") if key in volume}
        for volume in template.get("volumes", ())
    ]
