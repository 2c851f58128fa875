"""Objects as the API server has them, without one: a TrainingJob, its pods' order, a Node.

Used by tests of what the operator makes of objects.
"""

from datetime import UTC, datetime
from typing import Any

from holdfast.driver.adapters.kubernetes import names, podspec
from holdfast.protocol.nodeenv import Drivers

NOW = datetime(2026, 1, 1, tzinfo=UTC)

Object = dict[str, Any]

JOB: Object = {
    "metadata": {"name": "speech", "namespace": "lab", "uid": "uid-1", "generation": 1},
    "spec": {
        "nodes": 2,
        "command": ["python", "train.py"],
        "pod": {"image": "speech:1", "resources": {"limits": {"nvidia.com/gpu": 8}}},
    },
}


def order(**pod: Any) -> podspec.Order:
    job = JOB | {"spec": {**JOB["spec"], "pod": {**JOB["spec"]["pod"], **pod}}}
    return podspec.Order(job, "node-7", 3, 2, Drivers(["https://a:1", "https://b:2"], ca="its PEM"))


def node(*conditions: Object, **spec: Any) -> Object:
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": "node-7", "resourceVersion": "5", "labels": {names.RACK: "r2"}},
        "spec": spec,
        "status": {"conditions": [*conditions, ready], "allocatable": {"cpu": "8"}},
    }
