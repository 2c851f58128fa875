"""What a pod asks of a node: its containers' commands, environment, volumes and limits. Pure.

Used by `pod`. Whatever an emulated node would not honour is refused in sentences (`refusals`), but
for what describes the container's image or guards a real machine (`securityContext`).
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.lab.emulator.kubelet.orders import Mount
from holdfast.lab.emulator.kubelet.quantities import whole

Object = dict[str, Any]
KINDS_OF_VOLUME = ("emptyDir", "projected", "configMap", "secret", "downwardAPI", "hostPath")
KINDS_OF_SOURCE = ("serviceAccountToken", "configMap", "secret", "downwardAPI")
REFERENCES = {
    "configMapRef": "ConfigMap",
    "secretRef": "Secret",
    "configMapKeyRef": "ConfigMap",
    "secretKeyRef": "Secret",
    "configMap": "ConfigMap",
    "secret": "Secret",
}
"""What kind of object each field names."""
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
BEST_EFFORT, GUARANTEED = 1_000, -997
"""Scores of pods by their class of service; those between are Burstable."""
VARIABLE = re.compile(r"\$(\$|\(([A-Za-z_.-][A-Za-z0-9_.-]*)\))")


class BadReference(Exception):
    """A reference to what is not there or not known; the message is a sentence."""


class Here(NamedTuple):
    """What a pod is told about where it runs."""

    address: str


class Values(NamedTuple):
    """Data of the objects that a pod refers to, by (kind, name); None where there is no such."""

    data: Mapping[tuple[str, str], Mapping[str, bytes] | None]

    def key(self, kind: str, reference: Object) -> bytes | None:
        """One key of an object; None where it is missing and optional."""
        found = self.data.get((kind, reference["name"]))
        value = None if found is None else found.get(reference["key"])
        if value is None and not reference.get("optional"):
            raise BadReference(f"{kind} {reference['name']} has no key {reference['key']}")
        return value


def refusals(pod: Object) -> list[str]:
    """What this node cannot do for the pod, a sentence each."""
    spec = pod["spec"]
    wrong = []
    if spec.get("initContainers"):
        wrong.append("initContainers: an emulated node runs none. Start them from the command.")
    for volume in spec.get("volumes", []):
        kinds = [kind for kind in volume if kind != "name"]
        if any(kind not in KINDS_OF_VOLUME for kind in kinds):
            wrong.append(
                f"volumes: {volume['name']} is {kinds[0]}, and an emulated node has only "
                f"{', '.join(KINDS_OF_VOLUME)}."
            )
    for container in spec["containers"]:
        if any("grpc" in container.get(kind, {}) for kind in PROBES):
            wrong.append(
                f"{container['name']}: an emulated node has no gRPC probes. Use tcpSocket."
            )
        if container.get("lifecycle"):
            wrong.append(f"{container['name']}: lifecycle hooks are not run on an emulated node.")
        if any("subPathExpr" in mount for mount in container.get("volumeMounts", [])):
            wrong.append(f"{container['name']}: subPathExpr is not known to an emulated node.")
    return wrong


def references(pod: Object) -> dict[tuple[str, str], bool]:
    """(kind, name) of every ConfigMap and Secret that the pod refers to: whether it must be."""
    found: dict[tuple[str, str], bool] = {}
    parts = [
        *(part for one in pod["spec"]["containers"] for part in one.get("envFrom", [])),
        *(
            variable.get("valueFrom", {})
            for one in pod["spec"]["containers"]
            for variable in one.get("env", [])
        ),
        *(part for volume in pod["spec"].get("volumes", []) for part in sources(volume)),
    ]
    for part in parts:
        for field_name, kind in REFERENCES.items():
            if reference := part.get(field_name):
                name = reference.get("name") or reference["secretName"]
                needed = not reference.get("optional", False)
                found[kind, name] = found.get((kind, name), False) or needed
    return found


def sources(volume: Object) -> list[Object]:
    """What is projected into a volume: one kind of source each."""
    if projected := volume.get("projected"):
        return list(projected["sources"])
    return [{kind: volume[kind]} for kind in KINDS_OF_SOURCE if kind in volume]


def argv(container: Object, entrypoint: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The words to run: `command` instead of the image's entry point, then `args`."""
    words = [*(container.get("command") or entrypoint), *container.get("args", [])]
    return [expand(word, environment) for word in words]


def environment(pod: Object, container: Object, here: Here, values: Values) -> dict[str, str]:
    """`envFrom`, then `env` in its order. Raises `BadReference`."""
    made: dict[str, str] = {}
    for source in container.get("envFrom", []):
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if reference := source.get(field):
                found = values.data.get((kind, reference["name"])) or {}
                prefix = source.get("prefix", "")
                made |= {prefix + key: value.decode() for key, value in found.items()}
    for variable in container.get("env", []):
        value = _variable(pod, container, variable, here, values, made)
        if value is not None:
            made[variable["name"]] = value
    return made


def expand(text: str, environment: Mapping[str, str]) -> str:
    """`$(NAME)` as Kubernetes expands it: unknown names stay, `$$` is one `$`."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[1] == "$" else environment.get(match[2], match[0])

    return VARIABLE.sub(value, text)


def field(pod: Object, path: str, here: Here) -> str:
    """A field of the downward API. Raises `BadReference`."""
    key = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if key:
        return str(pod["metadata"].get(key[1], {}).get(key[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = pod["metadata"].get(path.partition(".")[2], {})
        return "".join(f'{name}="{value}"\n' for name, value in sorted(pairs.items()))
    if path in ("status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs"):
        return here.address
    part, _, name = path.partition(".")
    if part not in ("metadata", "spec") or name not in pod[part]:
        raise BadReference(f"fieldRef {path} is not known to an emulated node")
    return str(pod[part][name])


def memory_bytes(container: Object) -> int:
    """The limit, 0 for none."""
    return whole(container.get("resources", {}).get("limits", {}).get("memory", 0))


def oom_score_adj(pod: Object, container: Object, node_bytes: int) -> int:
    """As a kubelet gives it (its `pkg/kubelet/qos`): the less is asked for, the sooner it goes."""
    asked = [one.get("resources", {}) for one in pod["spec"]["containers"]]
    if not any(each.get("requests") or each.get("limits") for each in asked):
        return BEST_EFFORT
    if all(_guaranteed(each) for each in asked):
        return GUARANTEED
    own = container.get("resources", {})
    requested = whole(own.get("requests", own.get("limits", {})).get("memory", 0))
    share = BEST_EFFORT * requested // max(1, node_bytes)
    return max(BEST_EFFORT + GUARANTEED, min(BEST_EFFORT - share, BEST_EFFORT - 1))


def _guaranteed(resources: Object) -> bool:
    limits = resources.get("limits", {})
    requests = limits | resources.get("requests", {})
    return all(kind in limits and limits[kind] == requests[kind] for kind in ("cpu", "memory"))


def resource(container: Object, reference: Object) -> str:
    """A field like `limits.memory`, in units of its divisor."""
    part, _, name = reference["resource"].partition(".")
    found = container.get("resources", {}).get(part, {}).get(name, 0)
    divisor = whole(reference.get("divisor", 1)) or 1
    return str(-(-whole(found) // divisor))


def mounts(container: Object, volumes: Mapping[str, Path]) -> list[Mount]:
    """What it mounts. `volumes`: where each is on the node."""
    return [
        Mount(
            source=str(volumes[mount["name"]] / mount.get("subPath", "")),
            target=mount["mountPath"],
            read_only=bool(mount.get("readOnly")),
        )
        for mount in container.get("volumeMounts", [])
    ]


def _variable(
    pod: Object,
    container: Object,
    variable: Object,
    here: Here,
    values: Values,
    so_far: Mapping[str, str],
) -> str | None:
    """The value of one variable; None where it refers to something optional that is not there."""
    source = variable.get("valueFrom", {})
    if reference := source.get("fieldRef"):
        return field(pod, reference["fieldPath"], here)
    if reference := source.get("resourceFieldRef"):
        return resource(container, reference)
    for name, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if reference := source.get(name):
            found = values.key(kind, reference)
            return None if found is None else found.decode()
    return expand(variable.get("value", ""), so_far)
