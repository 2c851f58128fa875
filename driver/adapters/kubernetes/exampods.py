"""The pod that tests a distrusted node: what the job that lost it would get there, and no job's.

Used by `cluster` and `placing`. It belongs to the Node that it tests, tolerates our taint, and
pushes nobody off. Pure.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.driver.adapters.kubernetes import names, podspec
from holdfast.driver.ports import PermanentError
from holdfast.protocol import nodeenv

Json = Mapping[str, Any]


class ExamOrder(NamedTuple):
    """One pod that is wanted. `job` is the TrainingJob as it was accepted, `node` the Node."""

    job: Json
    node: Json
    number: int
    drivers: nodeenv.Drivers

    @property
    def name(self) -> str:
        return names.trial_name(self.node["metadata"]["name"], self.number)

    @property
    def namespace(self) -> str:
        """The job's own: there are its pull secrets, its service account and its volumes."""
        return str(self.job["metadata"]["namespace"])


def job_of(spec: bytes) -> Json:
    """The TrainingJob that a core job was made of, as `pods` reads one.

    Raises `PermanentError` for one that came without its object, so that it never had a pod.
    """
    job: dict[str, Any] = _without_nulls(json.loads(spec or b"{}"))
    if "namespace" in job.get("metadata", {}) and "pod" in job.get("spec", {}):
        return job
    raise PermanentError("it was evicted from a job without a TrainingJob: no pod is known for it")


def _without_nulls(value: Any) -> Any:
    """Without the fields that nobody set: an API server would take a null for a value."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def manifest(order: ExamOrder) -> dict[str, Any]:
    """What is posted to have the pod."""
    node = order.node["metadata"]
    spec = podspec.spec_of(podspec.Order(order.job, node["name"], 0, order.number, order.drivers))
    spec["tolerations"].append({"key": names.TAINT, "operator": "Exists"})
    spec.pop("priorityClassName", None)
    owner = {"apiVersion": "v1", "kind": "Node", "name": node["name"], "uid": node["uid"]}
    labels = {
        "app.kubernetes.io/name": names.MANAGER,
        "app.kubernetes.io/component": "trial",
        "app.kubernetes.io/managed-by": names.MANAGER,
        names.TRIAL: str(order.number),
    }
    metadata = {
        "name": order.name,
        "namespace": order.namespace,
        "labels": labels,
        "annotations": {names.NODE: node["name"]},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": False}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
