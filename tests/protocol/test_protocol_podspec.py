"""`spec.pod`: a bounded part of Kubernetes' PodSpec, refused where nobody would honour it."""

from typing import Any

import pytest

from holdfast.protocol import podspec
from holdfast.protocol.jobcheck import check, check_without_pods
from holdfast.protocol.mistakes import BadDocument, Mistake


def job(**pod: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "speech"},
        "spec": {"command": ["python", "train.py"], "pod": {"image": "speech:1", **pod}},
    }


def mistakes(document: dict[str, Any]) -> dict[str, Mistake]:
    with pytest.raises(BadDocument) as refused:
        check(document)
    return {mistake.field: mistake for mistake in refused.value.mistakes}


def test_a_quantity_may_be_a_number_as_yaml_reads_it() -> None:
    pod = check(job(resources={"limits": {"nvidia.com/gpu": 8, "memory": "512Gi"}})).spec.pod
    assert pod is not None
    assert pod.resources.limits == {"nvidia.com/gpu": "8", "memory": "512Gi"}
    assert mistakes(job(shm="64 GB"))["spec.pod.shm"].why == podspec.NO_QUANTITY
    assert "spec.pod.shm" in mistakes(job(shm=True))


@pytest.mark.parametrize("where", ["limits", "requests"])
@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("memory", True),
        ("hugepages-2Mi", True),
        ("nvidia.com/gpu", True),
        ("gpu", False),
        ("Memory", False),
    ],
)
def test_a_resource_that_kubernetes_would_refuse_is_told_before(
    where: str, name: str, there: bool
) -> None:
    document = job(resources={where: {name: 8}})
    if there:
        assert check(document).spec.pod
    else:
        found = mistakes(document)[f"spec.pod.resources.{where}"]
        assert (found.why, found.fix) == (podspec.NO_RESOURCE, podspec.RESOURCE_FIX)


@pytest.mark.parametrize(
    ("volumes", "why"),
    [
        ([{"name": "data", "mountPath": "/data"}], "a volume has exactly one source."),
        (
            [{"name": "data", "mountPath": "/d", "emptyDir": {}, "secret": {"secretName": "s"}}],
            "a volume has exactly one source.",
        ),
        ([{"name": "shm", "mountPath": "/d", "emptyDir": {}}], "are Holdfast's own."),
        (
            [{"name": "data", "mountPath": path, "emptyDir": {}} for path in ("/a", "/b")],
            "two volumes have the same name.",
        ),
    ],
)
def test_volumes_that_contradict_themselves_are_told(
    volumes: list[dict[str, Any]], why: str
) -> None:
    (found,) = mistakes(job(volumes=volumes)).values()
    assert found.field.startswith("spec.pod")
    assert why in found.why
    assert found.fix


def test_a_cluster_without_pods_refuses_what_it_would_not_honour() -> None:
    assert check(job()).spec.pod
    with pytest.raises(BadDocument, match=r"spec\.pod: nodes of this driver have no pods\."):
        check_without_pods(job())


@pytest.mark.parametrize(
    ("toleration", "why"),
    [
        ({"key": "a", "operator": "Exists", "value": "b"}, "operator Exists is for any value."),
        ({"effect": "NoSchedule"}, "an empty key means every taint, whatever its value."),
    ],
)
def test_tolerations_that_kubernetes_would_refuse_are_told_before(
    toleration: dict[str, str], why: str
) -> None:
    assert mistakes(job(tolerations=[toleration]))["spec.pod.tolerations[0]"].why == why


@pytest.mark.parametrize(
    ("names", "field", "why"),
    [
        (["A", "A"], "spec.pod", "two variables have the same name."),
        (["RANK"], "spec.pod.secretEnv[0].name", "Holdfast sets this variable itself."),
        (["HOLDFAST_X"], "spec.pod.secretEnv[0].name", "Holdfast sets this variable itself."),
        (["a-b"], "spec.pod.secretEnv[0].name", ""),
    ],
)
def test_variables_of_secrets_that_cannot_be_are_told(
    names: list[str], field: str, why: str
) -> None:
    given = [{"name": name, "secretName": "redis", "key": "password"} for name in names]
    (found,) = mistakes(job(secretEnv=given)).values()
    assert found.field == field
    assert why in found.why
    assert found.fix
