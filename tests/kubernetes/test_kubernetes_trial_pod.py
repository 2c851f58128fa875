"""The pod that tests a distrusted node, as it is posted."""

import json
from typing import cast

import pytest

from holdfast.driver.adapters.kubernetes import exampods, names, pods
from holdfast.driver.adapters.kubernetes.objects import TrainingJobs
from holdfast.driver.ports import PermanentError
from holdfast.kubeapi.client import Client
from holdfast.protocol.nodeenv import Drivers

SPEC = {
    "metadata": {"name": "speech", "namespace": "training", "uid": "u-1", "labels": None},
    "spec": {
        "pod": {
            "image": "ours:1",
            "shm": None,
            "resources": {"limits": {"nvidia.com/gpu": "8"}, "requests": {}},
            "tolerations": [{"key": "gpu", "operator": "Exists", "value": "", "effect": ""}],
            "priorityClassName": "holdfast-training",
            "serviceAccountName": "trainer",
            "volumes": [
                {"name": "data", "mountPath": "/data", "hostPath": {"path": "/d"}, "secret": None}
            ],
        }
    },
}


def order(node: str = "node-4", spec: bytes = json.dumps(SPEC).encode()) -> exampods.ExamOrder:
    seen = {"metadata": {"name": node, "uid": "u-node"}}
    drivers = Drivers(["https://driver:7700"])
    return exampods.ExamOrder(exampods.job_of(spec), seen, 57, drivers)


def test_a_trial_gets_what_the_job_would_have_there_and_belongs_to_the_node() -> None:
    pod = exampods.manifest(order())
    spec = pod["spec"]
    assert (pod["metadata"]["name"], pod["metadata"]["namespace"]) == (
        "holdfast-trial-node-4-57",
        "training",
    )
    assert spec["containers"][0]["image"] == "ours:1"
    assert spec["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    assert spec["serviceAccountName"] == "trainer"
    assert {"name": "data", "hostPath": {"path": "/d"}} in spec["volumes"]
    assert pods.owner_uid(pod) == "u-node"
    assert pods.node_of(pod) == "node-4"
    assert names.JOB not in pod["metadata"]["labels"]
    assert "null" not in json.dumps(pod)


def test_a_trial_tolerates_our_taint_and_pushes_nobody_off_the_node() -> None:
    spec = exampods.manifest(order())["spec"]
    assert {"key": names.TAINT, "operator": "Exists"} in spec["tolerations"]
    assert {"key": "gpu", "operator": "Exists", "value": "", "effect": ""} in spec["tolerations"]
    assert "priorityClassName" not in spec
    assert "schedulingGates" not in spec


def test_the_name_of_a_trials_pod_fits_however_long_the_nodes_is() -> None:
    name = order("a" * 214 + "." + "b" * 38).name
    assert len(name) <= 253
    assert name == f"holdfast-trial-{'a' * 214}-57"


@pytest.mark.parametrize("spec", [b"", b'{"metadata": {"name": "x"}, "spec": {}}'])
def test_a_job_that_never_had_a_pod_has_none_for_a_trial(spec: bytes) -> None:
    with pytest.raises(PermanentError, match="no pod is known"):
        order(spec=spec)


def test_the_pod_of_a_trial_is_no_jobs() -> None:
    objects = TrainingJobs(cast(Client, None), names.Jobs(""))
    assert objects.job_of(exampods.manifest(order())) == ""


def test_only_a_pod_of_a_trial_may_belong_to_a_node() -> None:
    pod = exampods.manifest(order())
    del pod["metadata"]["labels"][names.TRIAL]
    assert pods.owner_uid(pod) == ""
