"""Holdfast is taken away piece by piece, in any order, while a job of it runs: nothing is stuck.

One driver process in the place of the Deployment's, two emulated nodes; each order begins with all
of it installed anew, a job that runs and a node that is distrusted and being tested.
"""

import json
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from deployed import kustomized
from running_driver import DriverProcess
from shipped_driver import ACCOUNT, QUICK_LEASES
from waiting import GRACE_S, eventually

from holdfast.driver.adapters.kubernetes import exampods, names
from holdfast.kubeapi import paths
from holdfast.lab.emulator.kubelet.joined import Joined
from holdfast.lab.emulator.namespaces import Kind, best_kind
from holdfast.lab.emulator.nodes import DRIVER_URL
from holdfast.lab.kubernetes.plane import ControlPlane, KubectlFailed
from holdfast.protocol.nodeenv import Drivers

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

NAMESPACE, JOB = "uninstalled", "trains"
SPACES = (NAMESPACE, "holdfast")
DISTRUSTED = "node-2"
OF_OTHERS = "default"
"""A namespace that stays, and that the driver does not see: the pod of a trial there is the test's.
"""
ORDERS = 4
"""Permutations of some twenty pieces that are tried, the same ones each time."""
DELETED_WITHIN_S = 130.0
"""A little more than the grace of a pod, for which kubectl waits."""
UNTAINTED = (f'taint "{names.TAINT}" not found',)
"""What it says besides, of the nodes that nobody distrusted."""
DOCS = Path(__file__).parents[2] / "docs" / "kubernetes.md"

Object = dict[str, Any]


class Installed:
    """All that a person applied, and a driver that has the Deployment's account."""

    def __init__(self, plane: ControlPlane, nodes: Joined, folder: Path) -> None:
        self.plane, self.nodes = plane, nodes
        self._folder = folder
        self._parts = [_asleep(each) for each in kustomized(plane, "")]
        self._parts += [_namespace(), _job()]

    def install(self) -> None:
        self._apply(*self._parts[:-1])
        self.plane.kubectl("wait", "--for=condition=Established", f"crd/trainingjobs.{names.GROUP}")
        self._apply(self._parts[-1])
        self.driver = self._driver()
        self.driver.spawn()
        eventually(lambda: self._phase() == "Running", "the job runs")
        self._distrust()
        self._apply(trial := self._trial())
        eventually(lambda: self._runs(trial), "the pod of its trial runs")

    def uninstall(self, order: Random) -> None:
        """Nobody waits for a piece to be gone before the next one goes, nor at the end for ranks
        that no driver is there to end: their pods would take their grace, two minutes.
        """
        for part in order.sample(self._parts, len(self._parts)):
            if part["kind"] == "Deployment":
                self.driver.end(signal.SIGKILL)
            self.plane.delete(_at(part))
        self.plane.delete(paths.pods(NAMESPACE), grace_s=1)

    def left(self) -> list[str]:
        """Objects of any kind that are ours, or that are being deleted."""
        kinds = self.plane.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        asked = ",".join(each for each in kinds if not each.startswith(("events", "nodes")))
        found = json.loads(self.plane.kubectl("get", asked, "-A", "-o", "json"))["items"]
        return [f"{each['kind']} {each['metadata']['name']}" for each in found if _ours(each)]

    def spaces_left(self) -> list[str]:
        """Of our namespaces, which go last: `left` looks at every kind, and is dear."""
        return [each for each in SPACES if self.plane.read(paths.namespaces(each))]

    def marked(self) -> list[str]:
        nodes = self.plane.read(paths.nodes())["items"]
        return [each["metadata"]["name"] for each in nodes if _marked(each)]

    # ------------------------------------------------------------ inside

    def _apply(self, *parts: Object) -> None:
        documents = json.dumps({"apiVersion": "v1", "kind": "List", "items": parts})
        self.plane.kubectl("apply", "-f", "-", input=documents)

    def _driver(self) -> DriverProcess:
        shutil.rmtree(state := self._folder / "driver", ignore_errors=True)
        who = self.plane.as_account(*ACCOUNT)
        words = ["--cluster", "kubernetes", "--kubeconfig", str(who), "--namespace", NAMESPACE]
        words += ["--driver-urls", DRIVER_URL, "--node-selector", "kubernetes.io/os=linux"]
        return DriverProcess(state, *words)

    def _phase(self) -> str:
        found = self.plane.read(paths.training_jobs(NAMESPACE, JOB))
        return str(found.get("status", {}).get("phase", ""))

    def _trial(self) -> Object:
        """The pod by which the node is tested, as a driver makes it."""
        job = _job()
        job["metadata"]["namespace"] = OF_OTHERS
        node = self.plane.read(paths.nodes(DISTRUSTED))
        return exampods.manifest(exampods.ExamOrder(job, node, 1, Drivers([DRIVER_URL])))

    def _runs(self, pod: Object) -> bool:
        found = self.plane.read(paths.pods(OF_OTHERS, pod["metadata"]["name"]))
        return bool(found["status"]["phase"] == "Running")

    def _distrust(self) -> None:
        url = json.loads(self.driver.paths.address.read_text())["http"]
        token = self.driver.paths.user_token.read_text().strip()
        at = f"{url}/v1alpha1/nodes/{DISTRUSTED}/evict"
        with httpx.Client(trust_env=False, verify=False, timeout=60) as person:
            headers = {"Authorization": f"Bearer {token}"}
            answer = person.post(at, json={"reason": "to be repaired"}, headers=headers)
        assert answer.status_code == 202, answer.text
        eventually(lambda: self.marked() == [DISTRUSTED], "it has its marks")


@contextmanager
def suppressed(words: tuple[str, ...]) -> Iterator[None]:
    """Let kubectl say this."""
    try:
        yield
    except KubectlFailed as failed:
        if not any(each in str(failed) for each in words):
            raise


def _at(part: Object) -> str:
    """Where it is at the API server."""
    metadata, version = part["metadata"], part["apiVersion"]
    within = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    kind = part["kind"].lower()
    ending = {"y": "ies", "s": "ses"}.get(kind[-1], f"{kind[-1]}s")
    base = "/api" if version == "v1" else "/apis"
    return f"{base}/{version}{within}/{kind[:-1]}{ending}/{metadata['name']}"


def _asleep(part: Object) -> Object:
    """The Deployment without pods: their driver is a process here."""
    if part["kind"] != "Deployment":
        return part
    return {**part, "spec": {**part["spec"], "replicas": 0}}


def _namespace() -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def _job() -> Object:
    command = ["python", "-c", "import time\nwhile True: time.sleep(0.1)"]
    spec = {"command": command, "pod": {"image": "holdfast-executor:1"}}
    metadata = {"name": JOB, "namespace": NAMESPACE}
    kind = {"apiVersion": names.API_VERSION, "kind": names.KIND}
    return {**kind, "metadata": metadata, "spec": spec}


def _ours(each: Object) -> bool:
    """`holdfast:…` is what the laboratory lets its nodes do."""
    metadata = each["metadata"]
    called = re.match(r"holdfast(?!:)|.*\.holdfast\.dev$", metadata["name"])
    within = metadata.get("namespace", "") in SPACES
    return bool(called) or within or "deletionTimestamp" in metadata


def _marked(node: Object) -> bool:
    annotations, taints = node["metadata"].get("annotations", {}), node["spec"].get("taints", ())
    return bool({*names.MARKS} & {*annotations}) or names.TAINT in [each["key"] for each in taints]


def _documented(words: str) -> list[list[str]]:
    """The commands of the docs with these words, for what an uninstall leaves."""
    lines = [line for line in DOCS.read_text().splitlines() if words in line]
    return [line.split()[1:] for line in lines if line.startswith("kubectl ")]


@pytest.fixture(scope="module")
def installed(
    own_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    if best_kind()[0] is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {best_kind()[1]}")
    folder = tmp_path_factory.mktemp("uninstalled")
    with ControlPlane(tmp_path_factory.mktemp("plane"), grace_s=GRACE_S) as plane:
        yield from _installed(plane, folder)


def _installed(plane: ControlPlane, folder: Path) -> Iterator[Installed]:
    """On a control plane of its own: on that of other tests objects of theirs are left."""
    options = [*QUICK_LEASES, "--driver-socket", str(folder / "driver" / "driver.sock")]
    with Joined(plane, folder / "nodes", nodes=2, more=options) as nodes:
        nodes.ready(within_s=240.0)
        yield Installed(plane, nodes, folder)
    assert nodes.leftovers().count == 0


@pytest.mark.parametrize("seed", range(ORDERS))
def test_in_whatever_order_it_is_uninstalled_nothing_is_left_and_nothing_is_stuck(
    installed: Installed, seed: int
) -> None:
    try:
        installed.install()
        installed.uninstall(Random(seed))
        trial = f"Pod {names.trial_name(DISTRUSTED, 1)}"
        with suppress(TimeoutError):
            eventually(lambda: not installed.spaces_left(), "our namespaces are gone")
            eventually(lambda: installed.left() == [trial], "but for the trial nothing is left")
        assert installed.left() == [trial], "nothing else is left, and nothing is being deleted"
        for words in _documented(f"pods -A -l {names.TRIAL}"):
            installed.plane.kubectl(*words, within_s=DELETED_WITHIN_S)
        assert installed.left() == []
    finally:
        installed.driver.end(signal.SIGKILL)
    assert installed.marked() == [DISTRUSTED], "whom nobody trusts is not trusted by an uninstall"
    for words in _documented(f"--all {names.TAINT}-"):
        with suppressed(UNTAINTED):
            installed.plane.kubectl(*words)
    assert installed.marked() == []
