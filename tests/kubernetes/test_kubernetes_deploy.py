"""deploy/kubernetes as a person applies it, to a real API server; and what its roles allow."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from deployed import ALL, DEPLOY, container_of, kustomized
from operated import operated
from pydantic_settings import CliApp
from waiting import eventually

from holdfast.driver.adapters.page.safety import is_ours, names_of
from holdfast.driver.settings import Settings, parts
from holdfast.lab.kubernetes.kubectl import KubectlFailed
from holdfast.lab.kubernetes.plane import ControlPlane

DEFINITION = str(DEPLOY / "base" / "crd.yaml")
DELETED_WITHIN_S = 130.0
"""A little more than kubectl is given."""

pytestmark = pytest.mark.kubernetes

DRIVER = "system:serviceaccount:holdfast:holdfast-driver"


@pytest.fixture(scope="module")
def deployed(own_plane: ControlPlane) -> ControlPlane:
    own_plane.kubectl("apply", "-k", str(DEPLOY))
    eventually(lambda: may(own_plane, DRIVER, "create", "pods"), "its roles are known")
    return own_plane


def may(cluster: ControlPlane, who: str, verb: str, what: str, namespace: str = "any") -> bool:
    """`what` is RESOURCE[.GROUP][/SUBRESOURCE]."""
    name, _, sub = what.partition("/")
    resource, _, group = name.partition(".")
    asked = {"verb": verb, "resource": resource, "group": group, "subresource": sub}
    spec = {"user": who, "resourceAttributes": {**asked, "namespace": namespace}}
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    review = json.dumps({**kind, "spec": spec})
    words = ("create", "-f", "-", "-o", "jsonpath={.status.allowed}")
    return cluster.kubectl(*words, input=review) == "true"


def test_it_is_applied_twice_without_a_change_and_without_a_warning(
    deployed: ControlPlane,
) -> None:
    said = deployed.kubectl("apply", "-k", str(DEPLOY)).splitlines()
    changed = [line for line in said if "configured" in line]
    # kubectl sends the selector of a budget each time, for its patches replace it
    assert changed == ["poddisruptionbudget.policy/holdfast-driver configured"]
    pods = "jsonpath={.items[*].status.conditions[?(@.type=='PodScheduled')].message}"

    def why() -> str:
        return deployed.kubectl("-n", "holdfast", "get", "pods", "-o", pods)

    assert eventually(why, "the driver's pod passed all admission and waits for a node")


@pytest.mark.parametrize(
    "folder", ["", "overlays/one-namespace", "overlays/one-driver", "overlays/webhooks"]
)
def test_the_driver_starts_with_the_settings_that_its_deployment_gives(
    plane: ControlPlane, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words that the driver would refuse would be found only in a cluster, by a pod that fails."""
    container = container_of(kustomized(plane, folder))
    for variable in container.get("env", ()):
        if variable["name"] == "HOLDFAST_DRIVER_JOURNAL":
            monkeypatch.setenv(variable["name"], "postgresql://holdfast@database/holdfast")
    settings = CliApp.run(Settings, cli_args=container["args"])
    assert settings.cluster == "kubernetes"
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"https": parts(settings.listen)[1], "probes": parts(settings.probes)[1]}
    assert settings.tls
    probes = (container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness"))
    asked = [(each["path"], each["port"]) for each in probes]
    assert asked == [("/healthz", "probes"), ("/healthz", "probes"), ("/ablez", "probes")]
    assert settings.standby is bool(settings.journal) is bool(settings.lease)
    mounts = [each["mountPath"] for each in container["volumeMounts"]]
    assert str(settings.state) in mounts
    assert settings.webhooks is None or str(settings.webhooks.parent) in mounts
    assert (settings.webhooks is not None) is (folder == "overlays/webhooks")


def test_a_driver_is_known_by_each_name_that_a_cluster_gives_its_service(
    plane: ControlPlane,
) -> None:
    parts_of = kustomized(plane, "overlays/one-driver")
    settings = CliApp.run(Settings, cli_args=container_of(parts_of)["args"])
    names = names_of(settings.urls, settings.hosts)
    for tail in ("", ".holdfast", ".holdfast.svc", ".holdfast.svc.cluster.local"):
        assert is_ours(f"holdfast-driver{tail}:7700", names), tail
    assert not is_ours("holdfast-driver.elsewhere:7700", names)


def test_two_drivers_wait_for_each_other_and_one_alone_for_nobody(plane: ControlPlane) -> None:
    one = kustomized(plane, "overlays/one-driver")
    assert not {"PodDisruptionBudget", "Secret"} & {each["kind"] for each in one}
    assert "lease" not in json.dumps(
        [each for each in one if each["kind"] != "CustomResourceDefinition"]
    )
    (budget,) = (each for each in kustomized(plane, "") if each["kind"] == "PodDisruptionBudget")
    assert budget["spec"]["minAvailable"] == 1


def test_the_database_for_a_trial_passes_admission(deployed: ControlPlane) -> None:
    overlay = str(DEPLOY / "overlays" / "trial-database")
    said = deployed.kubectl("apply", "--dry-run=server", "-k", overlay)
    assert "statefulset.apps/holdfast-postgres created" in said
    assert "Warning" not in said


@pytest.mark.parametrize(
    ("verb", "what", "allowed"),
    [
        ("create", "pods", True),
        ("delete", "pods", True),
        ("create", "pods/exec", False),
        ("update", "pods", False),
        ("patch", "nodes", True),
        ("delete", "nodes", False),
        ("patch", "trainingjobs.holdfast.dev/status", True),
        ("patch", "trainingjobs.holdfast.dev", False),
        ("list", "secrets", False),
        ("get", "configmaps", False),
        ("create", "tokenreviews.authentication.k8s.io", True),
        ("create", "events.events.k8s.io", True),
        ("list", "events.events.k8s.io", False),
        ("create", "serviceaccounts/token", False),
        ("get", "leases.coordination.k8s.io", False),  # but for one by its name
    ],
)
def test_the_driver_may_do_what_it_does_and_nothing_else(
    deployed: ControlPlane, verb: str, what: str, allowed: bool
) -> None:
    assert may(deployed, DRIVER, verb, what) is allowed


def test_whoever_edits_a_namespace_edits_its_jobs_and_whoever_views_it_views_them(
    deployed: ControlPlane,
) -> None:
    deployed.kubectl("create", "namespace", "people")
    for who, role in (("ada", "edit"), ("bob", "view")):
        words = ("-n", "people", "create", "rolebinding", who, f"--clusterrole={role}")
        deployed.kubectl(*words, f"--user={who}")
    jobs = "trainingjobs.holdfast.dev"
    eventually(lambda: may(deployed, "ada", "create", jobs, "people"), "roles are put together")
    eventually(lambda: may(deployed, "bob", "list", jobs, "people"), "each by itself")
    assert not may(deployed, "bob", "delete", jobs, "people")
    assert not may(deployed, "ada", "create", jobs, "holdfast")
    assert not may(deployed, "ada", "patch", f"{jobs}/status", "people")


def test_the_example_is_a_job_that_the_api_server_takes(deployed: ControlPlane) -> None:
    example = str(DEPLOY / "examples" / "job.yaml")
    assert "created" in deployed.kubectl("apply", "--dry-run=server", "-f", example)


def test_held_to_one_namespace_it_has_rights_on_jobs_and_pods_there_alone(
    deployed: ControlPlane,
) -> None:
    parts = kustomized(deployed, "overlays/one-namespace")
    (role,) = (each for each in parts if _is_the_drivers(each) and each["kind"] == "ClusterRole")
    everywhere = {what for rule in role["rules"] for what in rule["resources"]}
    assert everywhere == {"nodes", "nodes/status", "tokenreviews"}
    assert "--namespace=training" in container_of(parts)["args"]


@pytest.mark.parametrize("folder", ALL)
def test_no_namespace_is_installed_but_holdfasts_own(plane: ControlPlane, folder: str) -> None:
    """Jobs, claims and secrets are in the others: whoever uninstalls it would delete them, too."""
    namespaces = [each for each in kustomized(plane, folder) if each["kind"] == "Namespace"]
    assert {each["metadata"]["name"] for each in namespaces} <= {"holdfast", "holdfast-nodes"}


def test_uninstalled_in_the_wrong_order_nothing_is_stuck(deployed: ControlPlane) -> None:
    """The definition goes first, with a job there: no finalizer waits for a driver that is gone."""
    deployed.kubectl("create", "namespace", "left")
    document = yaml.safe_load((DEPLOY / "examples" / "job.yaml").read_text())
    deployed.kubectl("-n", "left", "apply", "-f", "-", input=json.dumps(document))
    deployed.kubectl("delete", "-f", DEFINITION, "--timeout=120s", within_s=DELETED_WITHIN_S)
    deployed.kubectl(
        "delete",
        "-k",
        str(DEPLOY),
        "--ignore-not-found",
        "--timeout=120s",
        within_s=DELETED_WITHIN_S,
    )
    define(deployed)  # for the tests that come after


def test_the_definition_may_go_and_come_back_under_a_driver_that_has_a_job(
    deployed: ControlPlane, tmp_path: Path
) -> None:
    define(deployed)
    with operated(deployed, tmp_path, name="under", nodes=1) as driven:
        driven.apply("gone", nodes=1)
        driven.bound("gone", 1)
        deployed.kubectl("delete", "-f", DEFINITION, "--timeout=120s", within_s=DELETED_WITHIN_S)
        eventually(lambda: not driven.pods("gone"), "its pod goes with it")
        define(deployed)
        driven.apply("again", nodes=1)
        driven.bound("again", 1)
        assert driven.driver.process is not None
        assert driven.driver.process.poll() is None, "it is the same driver"
        driven.clear("again")


def define(cluster: ControlPlane) -> None:
    cluster.kubectl("apply", "-f", DEFINITION)
    cluster.kubectl("wait", "--for=condition=Established", "crd/trainingjobs.holdfast.dev")
    eventually(lambda: _served(cluster), "TrainingJobs are served, and kubectl finds them")


def _served(cluster: ControlPlane) -> bool:
    """That comes a little after the condition."""
    with suppress(KubectlFailed):
        cluster.kubectl("get", "trainingjobs.holdfast.dev", "--all-namespaces")
        return True
    return False


def _is_the_drivers(part: dict[str, Any]) -> bool:
    name: str = part["metadata"]["name"]
    return name == "holdfast-driver"
