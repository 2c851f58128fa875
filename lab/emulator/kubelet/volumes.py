"""The content of a pod's volumes and of its environment, fetched as the node and over its link.

Used by `pod`. Tokens are asked for by TokenRequest, bound to the pod, and renewed before they end.
Must keep nothing secret outside the node.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.errors import Forbidden, NotFound
from holdfast.lab.emulator.kubelet import orders, podspec
from holdfast.lab.emulator.kubelet.podspec import BadReference, Here, Values
from holdfast.lab.emulator.kubelet.quantities import whole
from holdfast.lab.emulator.kubelet.times import seconds

Object = dict[str, Any]
SHARE_OF_LIFE = 0.8
"""A token is renewed after this share of its life, as the real kubelet does, or when it is old."""
DEFAULT_MODE = 0o644


class Filled(NamedTuple):
    """Volumes with their files, and when a token among them is due (0: there is none)."""

    volumes: list[orders.Volume]
    renew_at_s: float


async def values(client: Client, pod: Object) -> Values:
    """The data of every ConfigMap and Secret that the pod refers to. Raises `BadReference`."""
    namespace = pod["metadata"]["namespace"]
    found: dict[tuple[str, str], Mapping[str, bytes] | None] = {}
    for (kind, name), needed in podspec.references(pod).items():
        at = f"{paths.CORE}/namespaces/{namespace}/{kind.lower()}s/{name}"
        try:
            found[kind, name] = _data(kind, await client.get(at))
        except (NotFound, Forbidden):  # a node may not even know of what does not exist
            if needed:
                raise BadReference(f"{kind} {name} is not in namespace {namespace}") from None
            found[kind, name] = None
    return Values(found)


async def fill(
    client: Client,
    pod: Object,
    here: Here,
    data: Values,
    *,
    memory_bytes: int,
    now_s: float,
    oldest_s: float,
) -> Filled:
    """All volumes of the pod that the node itself has to make.

    `memory_bytes`: the size of an emptyDir in memory without a limit. `oldest_s`: of a token.
    """
    made, renew_at_s = [], 0.0
    for volume in pod["spec"].get("volumes", []):
        if "hostPath" in volume:
            continue
        files: dict[str, bytes] = {}
        for source in podspec.sources(volume):
            if request := source.get("serviceAccountToken"):
                token, ends_s = await _token(client, pod, request)
                files[request["path"]] = token.encode()
                wanted_s = min(now_s + (ends_s - now_s) * SHARE_OF_LIFE, now_s + oldest_s)
                renew_at_s = min(renew_at_s or wanted_s, wanted_s)
            else:
                files |= _files(pod, source, here, data)
        made.append(_volume(volume, files, memory_bytes))
    return Filled(made, renew_at_s)


def places(pod: Object, scratch: Path) -> dict[str, Path]:
    """Where each volume of the pod is on the node, by its name."""
    uid = pod["metadata"]["uid"]
    return {
        volume["name"]: Path(volume["hostPath"]["path"])
        if "hostPath" in volume
        else orders.volume_path(scratch, uid, volume["name"])
        for volume in pod["spec"].get("volumes", [])
    }


def _volume(volume: Object, files: dict[str, bytes], memory_bytes: int) -> orders.Volume:
    empty = volume.get("emptyDir") or {}
    in_memory = empty.get("medium") == "Memory"
    limit = whole(empty["sizeLimit"]) if "sizeLimit" in empty else memory_bytes
    kinds = [kind for kind in ("projected", *podspec.KINDS_OF_SOURCE) if kind in volume]
    return orders.Volume(
        name=volume["name"],
        memory_bytes=limit if in_memory else 0,
        files=files,
        mode=volume[kinds[0]].get("defaultMode", DEFAULT_MODE) if kinds else DEFAULT_MODE,
    )


async def _token(client: Client, pod: Object, request: Object) -> tuple[str, float]:
    """A token of the pod's service account, and when it ends."""
    meta, spec = pod["metadata"], pod["spec"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "audiences": [request["audience"]] if request.get("audience") else [],
            "expirationSeconds": request.get("expirationSeconds", 3_600),
            "boundObjectRef": bound,
        },
    }
    account = spec.get("serviceAccountName", "default")
    at = paths.service_accounts(meta["namespace"], account, "token")
    status = (await client.create(at, asked))["status"]
    return status["token"], seconds(status["expirationTimestamp"])


def _files(pod: Object, source: Object, here: Here, data: Values) -> dict[str, bytes]:
    """What a source that is no token puts into a volume. Raises `BadReference`."""
    if part := source.get("downwardAPI"):
        items = part.get("items", [])
        return {item["path"]: _told(pod, item, here).encode() for item in items}
    kind, field = ("Secret", "secret") if "secret" in source else ("ConfigMap", "configMap")
    part = source[field]
    found = data.data.get((kind, part.get("name") or part.get("secretName", ""))) or {}
    items = part.get("items")
    if items is None:
        return dict(found)
    missing = [item["key"] for item in items if item["key"] not in found]
    if missing and not part.get("optional"):
        raise BadReference(f"{kind} {part.get('name')} has no key {missing[0]}")
    return {item["path"]: found[item["key"]] for item in items if item["key"] in found}


def _told(pod: Object, item: Object, here: Here) -> str:
    if "fieldRef" in item:
        return podspec.field(pod, item["fieldRef"]["fieldPath"], here)
    reference = item["resourceFieldRef"]
    named = [one for one in pod["spec"]["containers"] if one["name"] == reference["containerName"]]
    return podspec.resource(named[0], reference)


def _data(kind: str, item: Object) -> dict[str, bytes]:
    if kind == "Secret":
        return {key: base64.b64decode(value) for key, value in item.get("data", {}).items()}
    plain = {key: value.encode() for key, value in item.get("data", {}).items()}
    binary = item.get("binaryData", {})
    return plain | {key: base64.b64decode(value) for key, value in binary.items()}
