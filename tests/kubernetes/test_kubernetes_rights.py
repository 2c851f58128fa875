"""What the driver may do is what it needs, and it does not lead where any of it is missing.

On a real API server, by the shipped roles, each verb of which is taken away once.
"""

import asyncio
import copy
import json
import re
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cuttable import cuttable
from deployed import DEPLOY, OVERLAYS, container_of, grant_of, granted, kustomized
from ports import free_port
from pydantic_settings import CliApp
from running_driver import DriverProcess
from waiting import DEADLINE_S, LOOK_S, eventually_async

from holdfast.driver.adapters.kubernetes import rights
from holdfast.driver.adapters.kubernetes.rights import Asked
from holdfast.driver.ports import PermanentError
from holdfast.driver.settings import Settings
from holdfast.kubeapi.client import Client, Limits
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.protocol import exitcodes

pytestmark = pytest.mark.kubernetes

Object = dict[str, Any]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = (
    f"{RBAC}/clusterroles/holdfast-driver",
    f"{RBAC}/namespaces/holdfast/roles/holdfast-driver-lease",
)
LEASE = "holdfast/holdfast-driver"
GRANTING = ["overlays/one-namespace", "overlays/pod-groups"]
"""Overlays with rights that the base does not have, or has elsewhere."""
TRAINING = "training"
"""The namespace of the first of them, which a person has made."""
ROLE_KINDS = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
OF_RIGHTS = ("Namespace", "ServiceAccount", *ROLE_KINDS)


@pytest.fixture(scope="module")
def installed(own_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The account with its roles, as they are shipped, before and afterwards."""
    apply_roles(own_plane)
    yield own_plane
    apply_roles(own_plane)


def apply_roles(plane: ControlPlane) -> None:
    files = [f"--filename={DEPLOY / 'base' / name}.yaml" for name in ("namespace", "rbac", "lease")]
    plane.kubectl("apply", *files)


@pytest.fixture
async def admin(installed: ControlPlane) -> AsyncIterator[Client]:
    async with Client.from_kubeconfig(installed.admin, user_agent="tests") as made:
        yield made


@pytest.fixture
async def driver(installed: ControlPlane) -> AsyncIterator[Client]:
    """The driver's own account, which asks much in a short time here."""
    config = installed.as_account("holdfast", "holdfast-driver")
    limits = Limits(calls_per_s=10_000.0, burst=10_000)
    async with Client.from_kubeconfig(config, user_agent="tests", limits=limits) as made:
        yield made


@pytest.fixture
def needs(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Asked]]:
    """What a driver needs that has the settings which a folder gives it."""

    def needed(folder: str) -> list[Asked]:
        container = container_of(kustomized(plane, folder))
        if any(each["name"] == "HOLDFAST_DRIVER_JOURNAL" for each in container.get("env", ())):
            monkeypatch.setenv("HOLDFAST_DRIVER_JOURNAL", "postgresql://holdfast@database/holdfast")
        settings = CliApp.run(Settings, cli_args=container["args"])
        return rights.needed(
            namespace=settings.namespace, lease=settings.lease, pod_groups=settings.pod_groups
        )

    return needed


@pytest.mark.parametrize("folder", OVERLAYS)
def test_what_is_granted_is_what_is_needed(
    plane: ControlPlane, folder: str, needs: Callable[[str], list[Asked]]
) -> None:
    assert granted(kustomized(plane, folder)) == {grant_of(each) for each in needs(folder)}


async def test_without_any_one_verb_of_its_roles_the_driver_refuses_and_names_it(
    admin: Client, driver: Client
) -> None:
    needed = rights.needed(namespace="", lease=LEASE)
    roles = [await admin.get(at) for at in ROLES]
    refused = await refusals(admin, driver, roles, needed)
    assert refused[0] == (
        "rights: the service account holdfast:holdfast-driver may not list "
        "trainingjobs.holdfast.dev in all namespaces. "
        "Apply the roles of deploy/kubernetes, or of your overlay of it, anew."
    )
    named = [re.sub(r".* may not (.*?)\. Apply .*", r"\1", each) for each in refused]
    assert {"patch nodes/status", "create tokenreviews.authentication.k8s.io"} <= set(named)
    assert named[-1] == ("update leases.coordination.k8s.io holdfast-driver in namespace holdfast")


def test_no_driver_waits_for_a_right_without_which_it_only_guesses() -> None:
    """Who has the new image before the new roles has a driver that says what it lacks."""
    every = rights.needed(namespace="", lease=LEASE)
    vital = rights.needed(namespace="", lease=LEASE, vital=True)
    rest = [each for each in every if each not in vital]
    assert {each["resource"] for each in rest} == {"priorityclasses"}


def test_it_is_known_which_overlays_grant_what_the_base_does_not(plane: ControlPlane) -> None:
    base = granted(kustomized(plane, ""))
    assert [each for each in OVERLAYS if granted(kustomized(plane, each)) - base] == GRANTING


@pytest.mark.parametrize("folder", GRANTING)
async def test_so_it_does_without_any_one_verb_that_an_overlay_grants(
    installed: ControlPlane,
    admin: Client,
    driver: Client,
    folder: str,
    needs: Callable[[str], list[Asked]],
) -> None:
    parts = [each for each in kustomized(installed, folder) if each["kind"] in OF_RIGHTS]
    try:
        installed.kubectl("create", "namespace", TRAINING)
        for part in parts:
            installed.kubectl("apply", "-f", "-", input=json.dumps(part))
        roles = [await admin.get(path_of(each)) for each in parts if is_the_drivers(each)]
        await refusals(admin, driver, roles, needs(folder))
    finally:
        apply_roles(installed)
        installed.kubectl("delete", "namespace", TRAINING, within_s=DEADLINE_S)
        kinds = ("rolebinding,role", "--ignore-not-found", "holdfast-driver-node-events")
        installed.kubectl("-n", "default", "delete", *kinds)


def is_the_drivers(part: Object) -> bool:
    return "rules" in part and part["metadata"]["name"].startswith("holdfast-driver")


def path_of(role: Object) -> str:
    namespace = role["metadata"].get("namespace", "")
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{RBAC}{within}/{role['kind'].lower()}s/{role['metadata']['name']}"


async def refusals(
    admin: Client, driver: Client, roles: list[Object], needed: list[Asked]
) -> list[str]:
    """What the driver says without each verb of these roles, which are whole again at the end."""
    await until_lacking(driver, needed, [])
    refused = []
    for shipped in roles:
        at = path_of(shipped)
        for lacking, without in each_less(shipped):
            await replaced(admin, at, without)
            await until_lacking(driver, needed, [lacking])
            with pytest.raises(PermanentError) as refusal:
                await rights.confirm(driver, needed, believed_s=0.0)
            refused.append(str(refusal.value))
        await replaced(admin, at, shipped)
    await rights.confirm(driver, needed)
    assert len(refused) == len(set(refused)) == len(needed)
    return refused


def each_less(role: Object) -> Iterator[tuple[str, Object]]:
    """The role without one verb of one resource, and what is lacking then; one after the other."""
    for number, rule in enumerate(role["rules"]):
        (resource,) = rule["resources"]
        for verb in rule["verbs"]:
            less = copy.deepcopy(role)
            less["rules"][number]["verbs"].remove(verb)
            if not less["rules"][number]["verbs"]:
                del less["rules"][number]
            yield f"{verb} {resource}", less


async def replaced(admin: Client, at: str, role: Object) -> None:
    newest = (await admin.get(at))["metadata"]["resourceVersion"]
    await admin.replace(at, {**role, "metadata": {**role["metadata"], "resourceVersion": newest}})


async def until_lacking(driver: Client, needed: list[Asked], lacking: list[str]) -> None:
    """Once the API server goes by the role as it is now."""

    async def now() -> list[str]:
        found = await rights.missing(driver, needed)
        return [f"{each['verb']} {_resource(each)}" for each in found]

    async with asyncio.timeout(DEADLINE_S):
        while await now() != lacking:
            await asyncio.sleep(LOOK_S)


def _resource(asked: Asked) -> str:
    return "/".join(filter(None, (asked["resource"], asked["subresource"])))


# ---------------------------------------------------------------- the driver's process


async def probed(port: int) -> bytes:
    """What is answered to a probe until the connection ends, from when somebody listens."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: driver\r\n\r\n")
                return await reader.read()
            except ConnectionRefusedError:
                await asyncio.sleep(LOOK_S)
            except ConnectionResetError:
                return b""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., DriverProcess]]:
    """A driver by a kubeconfig, with a state folder of its own."""
    made: list[DriverProcess] = []

    def start(name: str, config: Path, *more: str) -> DriverProcess:
        words = ("--cluster", "kubernetes", "--kubeconfig", str(config), *more)
        made.append(DriverProcess(tmp_path / name, *words))
        made[-1].spawn()
        return made[-1]

    yield start
    for each in made:
        each.end(signal.SIGKILL)


async def test_a_driver_that_lacks_a_right_does_not_lead_and_one_that_led_unheard_says_so(
    installed: ControlPlane,
    admin: Client,
    started: Callable[..., DriverProcess],
    tmp_path: Path,
) -> None:
    at = ROLES[0]
    lacking, without = next(each for each in each_less(await admin.get(at)) if "nodes/" in each[0])
    assert lacking == "patch nodes/status"
    await replaced(admin, at, without)
    direct = installed.as_account("holdfast", "holdfast-driver")
    async with cuttable("127.0.0.1", installed.at.api_port) as relay:
        relayed = tmp_path / "relayed.yaml"
        relayed.write_text(
            direct.read_text().replace(installed.url, f"https://127.0.0.1:{relay.at_port}")
        )
        await relay.cut()
        unheard = started("unheard", relayed)
        probes = free_port()
        refused = started("refused", direct, "--probes", f"127.0.0.1:{probes}")
        probe = asyncio.create_task(probed(probes))
        await eventually_async(unheard.paths.address.exists, "ranks may need it")
        await relay.mend()
        assert refused.process is not None
        assert await asyncio.to_thread(refused.process.wait, DEADLINE_S) == exitcodes.CONFIGURATION
        assert await probe == b"", "no kubelet took it for ready"
        why = "rights: the service account holdfast:holdfast-driver may not " + lacking
        assert why in refused.log.read_text()
        await eventually_async(lambda: why in unheard.log.read_text(), "it says what it lacks")
        assert unheard.process is not None
        assert unheard.process.poll() is None, "it is of use all the same"
    assert not refused.paths.journal.exists(), "no term was taken"
    assert "rights unknown" in unheard.log.read_text()
