"""deploy/kubernetes and its overlays, as kubectl builds them, and what they grant the driver.

Used by tests of what is shipped.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from holdfast.lab.kubernetes.plane import ControlPlane

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
SIGNALS = "overlays/node-signals"
"""It is applied beside the drivers and has none."""
ALL = ("", *sorted(f"overlays/{each.name}" for each in (DEPLOY / "overlays").iterdir()))
OVERLAYS = tuple(folder for folder in ALL if folder != SIGNALS)
"""The folders that a person may apply to have drivers."""

ACCOUNT = {"kind": "ServiceAccount", "name": "holdfast-driver", "namespace": "holdfast"}

Object = dict[str, Any]
Grant = frozenset[tuple[str, str]]
"""What a review would ask: verb, group, resource and so on, where they are not empty."""


def kustomized(cluster: ControlPlane, folder: str) -> list[Object]:
    """The objects of deploy/kubernetes, or of an overlay of it."""
    text = cluster.kubectl("kustomize", str(DEPLOY / folder))
    return [each for each in yaml.safe_load_all(text) if each]


def container_of(parts: list[Object]) -> Object:
    """The driver's."""
    (deployment,) = (each for each in parts if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found: Object = container
    return found


def granted(parts: list[Object]) -> set[Grant]:
    """All that the bindings among these objects let the driver do."""
    roles = {(each["kind"], each["metadata"]["name"]): each for each in parts if "rules" in each}
    bindings = [each for each in parts if ACCOUNT in each.get("subjects", ())]
    return {
        grant
        for each in bindings
        for rule in roles[each["roleRef"]["kind"], each["roleRef"]["name"]]["rules"]
        for grant in _grants(rule, each["metadata"].get("namespace", ""))
    }


def grant_of(asked: dict[str, str]) -> Grant:
    return frozenset((key, value) for key, value in asked.items() if value)


def _grants(rule: Object, namespace: str) -> Iterator[Grant]:
    for group in rule["apiGroups"]:
        for each in rule["resources"]:
            resource, _, subresource = each.partition("/")
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    asked = {"verb": verb, "group": group, "resource": resource}
                    asked |= {"subresource": subresource, "namespace": namespace, "name": name}
                    yield grant_of(asked)
