"""Jobs made and changed with no code of ours: the stock Python client, kubectl, and plain HTTP.

One driver for all namespaces follows them.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from operated import Operated, operated, said
from waiting import DEADLINE_S, eventually

from holdfast.lab.kubernetes.plane import ControlPlane, KubectlFailed
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
    eventually(lambda: not api.list_namespaced_custom_object(*where)["items"], "so is the job")


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


# ---------------------------------------------------------------- by REST, with one's own token


def account(stock: Operated, name: str, *verbs: str) -> str:
    """A token of a new service account with these verbs on TrainingJobs of the namespace."""
    stock.kubectl("create", "serviceaccount", name)
    if verbs:
        granted = [f"--verb={verb}" for verb in verbs]
        stock.kubectl("create", "role", name, *granted, "--resource=trainingjobs.holdfast.dev")
        bound = f"--serviceaccount={stock.namespace}:{name}"
        stock.kubectl("create", "rolebinding", name, f"--role={name}", bound)
        eventually(lambda: all(may(stock, name, verb) for verb in verbs), "its role counts")
    return stock.kubectl("create", "token", name).strip()


def may(stock: Operated, name: str, verb: str) -> bool:
    """By the API server's own word."""
    who = f"--as=system:serviceaccount:{stock.namespace}:{name}"
    try:
        said = stock.kubectl("auth", "can-i", verb, "trainingjobs.holdfast.dev", who)
    except KubectlFailed:
        return False
    return said.strip() == "yes"


def people(stock: Operated, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{stock.url()}/v1alpha1"
    return httpx.Client(
        base_url=url, headers=headers, trust_env=False, verify=False, timeout=DEADLINE_S
    )


def test_a_person_submits_suspends_resumes_and_deletes_by_rest_as_who_they_are(
    stock: Operated,
) -> None:
    token = account(stock, "ada", "create", "get", "list", "patch", "delete")
    with people(stock, token) as ada:
        made = ada.post("/jobs", json=stock.document("told"))
        assert (made.status_code, made.json()["name"]) == (201, "stock.told"), made.text
        assert ada.post("/jobs", json=stock.document("told")).status_code == 409
        eventually(lambda: ada.get("/jobs/stock.told").status_code == 200, "the driver has it")
        for word, condition in (("suspend", "Suspended"), ("resume", "Allocated")):
            asked = ada.post(f"/jobs/told/{word}")
            assert (asked.status_code, asked.json()["name"]) == (202, "stock.told"), asked.text
            stock.until("told", lambda seen, what=condition: said(seen, what) == "True", word)
        assert [job["name"] for job in ada.get("/jobs?name=stock.*").json()["items"]] == [
            "stock.told"
        ]
        refused = [ada.get("/jobs"), ada.get("/nodes"), ada.get("/jobs/stock-other.told")]
        assert [each.status_code for each in refused] == [403, 403, 403]
        assert [(each.json()["detail"], each.json()["fix"]) for each in refused] == [
            (
                "the service account stock:ada may not list trainingjobs.holdfast.dev "
                "in all namespaces.",
                "Bind the ClusterRole holdfast-view in the whole cluster.",
            ),
            (
                "the service account stock:ada may not list nodes.",
                "Bind a ClusterRole that may list nodes.",
            ),
            (
                "the service account stock:ada may not get trainingjobs.holdfast.dev told "
                "in namespace stock-other.",
                "Bind the ClusterRole holdfast-view in namespace stock-other.",
            ),
        ]
        assert ada.delete("/jobs/stock.told").status_code == 202
    eventually(lambda: not stock.get("tj", "told"), "it is deleted")
    wrote = {
        each["user"]["username"]
        for each in stock.plane.audit()
        if (about := each.get("objectRef", {})).get("resource") == "trainingjobs"
        and (about.get("namespace"), about.get("name")) == (stock.namespace, "told")
        and each["verb"] in ("create", "patch", "delete")
        and about.get("subresource") != "status"
    }
    assert wrote == {f"system:serviceaccount:{stock.namespace}:ada"}


def test_whoever_the_api_server_does_not_know_or_does_not_let_gets_nothing(
    stock: Operated,
) -> None:
    token = account(stock, "ben")
    with people(stock, token) as ben, people(stock, "x" * 40) as nobody:
        document = stock.document("denied")
        for asked in (ben, nobody):
            said_so = [
                asked.post("/jobs", json=document),
                asked.get("/jobs/stock.denied"),
                asked.get("/jobs?name=stock.*"),
                asked.delete("/jobs/stock.denied"),
                asked.post("/nodes/stock-1/evict", json={"reason": "none"}),
            ]
            expected = 403 if asked is ben else 401
            assert {each.status_code for each in said_so} == {expected}, said_so
            assert {len(each.json()["detail"].splitlines()) for each in said_so} == {1}
            if asked is ben:
                assert said_so[0].json()["detail"] == (
                    "the service account stock:ben may not create trainingjobs.holdfast.dev "
                    "in namespace stock."
                )
    assert stock.get("tj", "denied") == {}


def test_the_drivers_own_token_sees_all_of_it_and_changes_no_object(stock: Operated) -> None:
    own = stock.driver.paths.user_token.read_text().strip()
    with people(stock, own) as driver:
        assert driver.get("/jobs").status_code == 200
        assert len(driver.get("/nodes").json()["items"]) == 2
        refused = driver.post("/jobs", json=stock.document("denied"))
        assert refused.status_code == 403
        assert "HOLDFAST_TOKEN" in refused.json()["fix"]
