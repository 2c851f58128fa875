"""Jobs made and changed with no code of ours: the stock Python client, and plain kubectl.

One driver for all namespaces follows them.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from operated import Operated, operated, said
from waiting import DEADLINE_S, eventually

from holdfast.lab.kubernetes.plane import ControlPlane
from kubernetes import client, config, watch

pytestmark = pytest.mark.kubernetes

KIND = ("holdfast.dev", "v1alpha1")
OTHER = "stock-other"


@pytest.fixture(scope="module")
def stock(crd: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    folder = tmp_path_factory.mktemp("driver")
    with operated(crd, folder, name="stock", nodes=2, everywhere=True) as driven:
        crd.kubectl("create", "namespace", OTHER)
        yield driven
        crd.kubectl("delete", "namespace", OTHER, "--wait=false")


@pytest.fixture
def api(crd: ControlPlane) -> Iterator[client.CustomObjectsApi]:
    """As anybody's script has it."""
    with config.new_client_from_config(str(crd.admin)) as made:
        yield client.CustomObjectsApi(made)
        made.rest_client.pool_manager.clear()


def seen(api: client.CustomObjectsApi, job: dict[str, Any], condition: str) -> dict[str, Any]:
    """The job, watched from its version on, once the condition is True."""
    metadata = job["metadata"]
    told = watch.Watch().stream(
        api.list_namespaced_custom_object,
        *KIND,
        metadata["namespace"],
        "trainingjobs",
        field_selector=f"metadata.name={metadata['name']}",
        resource_version=metadata["resourceVersion"],
        timeout_seconds=int(DEADLINE_S),
    )
    for event in told:
        found: dict[str, Any] = event["object"]
        if said(found.get("status", {}), condition) == "True":
            return found
    raise TimeoutError(f"{metadata['name']} is not {condition}")


def test_a_stock_python_client_makes_watches_suspends_resumes_and_deletes_a_job(
    stock: Operated, api: client.CustomObjectsApi
) -> None:
    where = (*KIND, stock.namespace, "trainingjobs")
    job = api.create_namespaced_custom_object(*where, stock.document("scripted", nodes=2))
    job = seen(api, job, "Allocated")
    assert job["status"]["nodes"] == ["stock-1", "stock-2"]
    for suspend, condition in ((True, "Suspended"), (False, "Allocated")):
        patch = {"spec": {"suspend": suspend}}
        job = api.patch_namespaced_custom_object(*where, "scripted", patch)
        job = seen(api, job, condition)
    with pytest.raises(client.ApiException, match="nodes cannot change once the job is made"):
        api.patch_namespaced_custom_object(*where, "scripted", {"spec": {"nodes": 1}})
    api.delete_namespaced_custom_object(*where, "scripted")
    eventually(lambda: not stock.pods("scripted"), "its pods are gone")
    listed = api.list_namespaced_custom_object(*where)["items"]
    assert listed == []


def test_a_field_that_nobody_knows_is_dropped_with_a_warning_or_refused_as_the_client_wants(
    stock: Operated, api: client.CustomObjectsApi
) -> None:
    where = (*KIND, stock.namespace, "trainingjobs")
    odd = stock.document("odd", nodez=3, suspend=True)
    with pytest.raises(client.ApiException, match=r'unknown field \\"spec.nodez\\"'):
        api.create_namespaced_custom_object(*where, odd, field_validation="Strict")
    made = api.create_namespaced_custom_object(*where, odd)
    assert "nodez" not in made["spec"]
    api.delete_namespaced_custom_object(*where, "odd")


def test_plain_kubectl_makes_waits_for_suspends_resumes_and_deletes_a_job(
    stock: Operated,
) -> None:
    document = json.dumps(stock.document("typed", nodes=2))
    assert "typed created" in stock.plane.kubectl("create", "-f", "-", input=document)

    def waited(condition: str) -> None:
        words = ("tj/typed", f"--for=condition={condition}", f"--timeout={DEADLINE_S:g}s")
        stock.plane.kubectl("-n", stock.namespace, "wait", *words, within_s=2 * DEADLINE_S)

    waited("Allocated")
    stock.patch("typed", suspend=True)
    waited("Suspended")
    stock.patch("typed", suspend=False)
    waited("Allocated")
    stock.kubectl("delete", "tj", "typed")
    eventually(lambda: not stock.pods("typed"), "its pods are gone")


def test_jobs_of_one_name_in_two_namespaces_are_two_jobs(stock: Operated) -> None:
    documents = [stock.document("twin"), stock.document("twin")]
    documents[1]["metadata"]["namespace"] = OTHER
    together = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    stock.plane.kubectl("apply", "-f", "-", input=together)
    first = eventually(lambda: stock.pods("twin"), "the pod of one")
    second = eventually(lambda: stock.pods("twin", namespace=OTHER), "the pod of the other")
    assert first.keys() == second.keys() == {"twin-0-1"}
    stock.kubectl("delete", "tj", "twin", namespace=OTHER)
    eventually(lambda: not stock.pods("twin", namespace=OTHER), "the pod of the other is gone")
    assert stock.pods("twin") == first
    stock.clear("twin")


def test_names_may_be_as_long_as_kubernetes_lets_them_be(stock: Operated) -> None:
    name, namespace = "j" * 63, "n" * 63
    stock.plane.kubectl("create", "namespace", namespace)
    document = stock.document(name)
    document["metadata"] |= {"namespace": namespace, "labels": {"l" * 63: "v" * 63}}
    stock.plane.kubectl("apply", "-f", "-", input=json.dumps(document))
    pods = eventually(lambda: stock.pods(name, namespace=namespace), "its pod is there")
    assert list(pods) == [f"{name}-0-1"]
    stock.plane.kubectl("delete", "namespace", namespace, "--wait=false")
