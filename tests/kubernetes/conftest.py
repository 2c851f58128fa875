"""A real control plane for the tests that need one, started once for all of them."""

import asyncio
import os
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import cast

import pytest
from cluster_trial import JOBS, Trial, there, training_job
from shipped_driver import RUNNING, decided_in
from waiting import DEADLINE_S, GRACE_S, eventually

from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.lab.kubernetes.build import NotHere
from holdfast.lab.kubernetes.given import KUBECONFIG, GivenCluster, NotPossible
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.lab.kubernetes.programs import command

HERE = Path(__file__).parent
CRD = HERE.parents[1] / "deploy" / "kubernetes" / "base" / "crd.yaml"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/trainingjobs.holdfast.dev"

RUNNING_PLANES: list[ControlPlane] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """A control plane costs something also while nobody asks it, and those who do come first: it
    ends after the last of this folder.
    """
    yield
    if nextitem is None or nextitem.path.parent != HERE:
        while RUNNING_PLANES:
            RUNNING_PLANES.pop().end()


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Stock Kubernetes on this machine. Tests share it: each makes its own namespace and names.

    Where a test cluster is given, that one; a test that asks it for what is not ours is skipped.
    """
    needed("kubectl")
    if KUBECONFIG in os.environ:
        folder = tmp_path_factory.mktemp("given")
        with GivenCluster(Path(os.environ[KUBECONFIG]), folder) as given:
            yield cast(ControlPlane, given)
        return
    needed("certificate")
    with ControlPlane(tmp_path_factory.mktemp("kubernetes"), grace_s=GRACE_S) as running:
        RUNNING_PLANES.append(running)
        yield running


@pytest.fixture(scope="session")
def programs() -> None:
    """For tests of commands that start a control plane themselves."""
    needed("certificate")


def needed(program: str) -> None:
    """Skip where it is not here, or fail where Kubernetes is required."""
    try:
        command(program)
    except NotHere as missing:
        if os.environ.get("HOLDFAST_TEST_KUBERNETES") == "required":
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def own_plane(plane: ControlPlane) -> ControlPlane:
    """For tests that install Holdfast as it is shipped, cut its roles down and remove it."""
    if KUBECONFIG in os.environ:
        pytest.skip("Holdfast is installed and removed by it, on a cluster of the tests' own alone")
    return plane


@pytest.fixture(scope="session")
def crd(plane: ControlPlane) -> ControlPlane:
    """The control plane that knows TrainingJobs."""
    plane.kubectl("apply", "-f", str(CRD))
    eventually(lambda: _established(plane), "TrainingJobs are known")
    return plane


def _established(plane: ControlPlane) -> bool:
    said = plane.read(DEFINITION)["status"].get("conditions") or ()
    return ("Established", "True") in [(each["type"], each["status"]) for each in said]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """What a given cluster does not let us do is no failure of ours."""
    return (yield from _possible())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    return (yield from _possible())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With a failure comes what the driver under test decided last."""
    report = yield
    for folder in RUNNING if report.failed else ():
        report.sections.append((f"decided in {folder.name}", decided_in(folder)))
    return report


def _possible() -> Generator[None, None, None]:
    try:
        return (yield)
    except NotPossible as not_ours:
        pytest.skip(str(not_ours))


@pytest.fixture
async def trial(crd, request) -> AsyncIterator[Trial]:
    namespace = f"trial-{abs(hash(request.node.name)) % 10**8}"
    crd.make_namespace(namespace)
    async with Client.from_kubeconfig(crd.admin, user_agent="tests") as client:
        made = Trial(client, namespace)
        for job in JOBS:
            await client.create(paths.training_jobs(namespace), training_job(job))
        at = paths.service_accounts(namespace, "default")

        async with asyncio.timeout(DEADLINE_S):
            while not await there(client, at):
                await asyncio.sleep(0.05)
        await made.nodes.make()
        keeping = asyncio.create_task(made.nodes.keep())
        yield made
        keeping.cancel()
        await asyncio.wait([keeping])
        await made.nodes.remove()
        crd.delete(paths.namespaces(namespace))
