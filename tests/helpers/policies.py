"""An admission policy on a real API server that changes each new pod of a namespace.

Used by tests of what the driver makes of pods that are not as it wanted them.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from operated import Operated
from waiting import eventually

ADMISSION = "admissionregistration.k8s.io/v1"
MARK = "seen-by"
"""Label of a pod that a policy has changed."""


@contextmanager
def policy(driven: Operated, name: str, *, field: str, value: Any) -> Iterator[None]:
    """It marks new pods and takes a field off their spec, within. `value`: one that it may have."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    patch = f"""[JSONPatch{{op: "add", path: "/metadata/labels/{MARK}", value: "policy"}},
        JSONPatch{{op: "remove", path: "/spec/{field}"}}]"""
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConditions": [{"name": "is-there", "expression": f"has(object.spec.{field})"}],
        "matchConstraints": {"resourceRules": [{**rule, "resources": ["pods"]}]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": driven.namespace}}
    bound = {"policyName": name, "matchResources": {"namespaceSelector": here}}
    made = {"MutatingAdmissionPolicy": spec, "MutatingAdmissionPolicyBinding": bound}
    try:
        for kind, said in made.items():
            document = {"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": name}}
            driven.plane.kubectl("apply", "-f", "-", input=json.dumps({**document, "spec": said}))
        eventually(lambda: _changes(driven, {field: value}), "the policy is in force")
        yield
    finally:
        for kind in made:
            driven.plane.kubectl("delete", kind, name, "--ignore-not-found")


def _changes(driven: Operated, fields: dict[str, Any]) -> bool:
    """Policies begin some time after they were made; a pod of nobody shows whether they did."""
    spec = {"containers": [{"name": "c", "image": "x"}], **fields}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "trial"}, "spec": spec}
    document["metadata"] |= {"namespace": driven.namespace, "labels": {"of": "tests"}}
    told = ("--dry-run=server", "-o", "json")
    made = driven.plane.kubectl("create", *told, "-f", "-", input=json.dumps(document))
    return MARK in json.loads(made)["metadata"]["labels"]
