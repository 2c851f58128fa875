"""Signals of nodes on a real API server: what their account may, what they tell, and what follows.

The DaemonSet has pods on nodes without machines; what such a pod would run runs here as a process,
with the token of that pod.
"""

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from cuttable import cuttable
from deployed import DEPLOY, SIGNALS
from made_objects import NOW
from operated import Operated, operated
from running_signals import SignalsProcess
from shipped_rights import Audit
from waiting import DEADLINE_S, eventually, eventually_async

from holdfast.driver.adapters.kubernetes import facts
from holdfast.driver.core.events import Found
from holdfast.kubeapi import paths
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.version import FIELD_MANAGER
from holdfast.protocol.xids import HARDWARE_FAULT, XID_ERRORS

pytestmark = pytest.mark.kubernetes

NAMESPACE, ACCOUNT = "holdfast-nodes", "node-signals"
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
NODES = 4

Object = dict[str, Any]


class Signals:
    """The overlay on a cluster, with a driver and nodes that have GPUs, by their label."""

    def __init__(self, driven: Operated, folder: Path) -> None:
        self.driven, self.plane = driven, driven.plane
        self.nodes = [f"{driven.namespace}-{number + 1}" for number in range(NODES)]
        self._folder = folder

    def apply(self) -> str:
        return self.plane.kubectl("apply", "-k", str(DEPLOY / SIGNALS))

    def token(self, node: str) -> str:
        """As the pod of the DaemonSet on this node has one."""
        pod = eventually(lambda: self._pod(node), f"the DaemonSet has a pod on {node}")["metadata"]
        bound = ["--bound-object-kind=Pod", f"--bound-object-name={pod['name']}"]
        return self.kubectl("create", "token", ACCOUNT, *bound, f"--bound-object-uid={pod['uid']}")

    def kubectl(self, *words: str) -> str:
        return self.plane.kubectl("-n", NAMESPACE, *words).strip()

    def _pod(self, node: str) -> Object:
        pods = self.plane.read(paths.pods(NAMESPACE)).get("items", ())
        found: list[Object] = [each for each in pods if each["spec"].get("nodeName") == node]
        return found[0] if found else {}

    def asked(self, token: str, verb: str, path: str, body: Object | None = None) -> httpx.Response:
        """What the API server answers to whoever has this token."""
        trust = ssl.create_default_context(cafile=self.plane.ca)
        with httpx.Client(verify=trust, trust_env=False, timeout=DEADLINE_S) as client:
            headers = {"Authorization": f"Bearer {token}", **STRATEGIC}
            told = json.dumps(body or {})
            return client.request(verb, self.plane.url + path, headers=headers, content=told)

    def process(self, node: str, *, url: str = "", token: str = "") -> SignalsProcess:
        given = token or self.token(node)
        folder = self._folder / node
        at = url or self.plane.url
        return SignalsProcess(folder, node, url=at, ca=self.plane.ca, token=given)

    def node(self, node: str) -> Object:
        return self.plane.read(paths.nodes(node))

    def said(self, node: str) -> dict[str, str]:
        """Status and reason of the conditions that are ours, by type."""
        found = self.node(node)["status"]["conditions"]
        return {
            each["type"]: f"{each['status']} {each['reason']}"
            for each in found
            if each["type"] in (HARDWARE_FAULT, XID_ERRORS)
        }


@pytest.fixture(scope="module")
def signals(
    own_plane: ControlPlane, crd: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Signals]:
    folder = tmp_path_factory.mktemp("signals")
    with operated(crd, folder, name="signals", nodes=NODES) as driven:
        made = Signals(driven, folder)
        crd.kubectl("label", "node", *made.nodes, "nvidia.com/gpu.present=true")
        made.apply()
        try:
            refused = made.nodes[1]
            token = made.token(made.nodes[0])
            eventually(
                lambda: made.asked(token, "PATCH", status_of(refused)).status_code == 403,
                "the policy is in force",
            )
            yield made
        finally:
            made.kubectl("delete", "daemonset", ACCOUNT)
            made.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
            crd.kubectl("delete", "-k", str(DEPLOY / SIGNALS), "--ignore-not-found", "--wait=false")


def status_of(node: str) -> str:
    return paths.nodes(node, "status")


QUIET = {HARDWARE_FAULT: "False NoXid", XID_ERRORS: "False NoXid"}


def test_it_is_applied_twice_without_a_change_and_without_a_warning(signals: Signals) -> None:
    assert [line for line in signals.apply().splitlines() if "unchanged" not in line] == []


def test_there_is_one_on_each_node_with_gpus_and_none_elsewhere(signals: Signals) -> None:
    for node in signals.nodes:
        assert signals.token(node)
    pods = signals.plane.read(paths.pods(NAMESPACE))["items"]
    assert {each["spec"]["nodeName"] for each in pods} == {*signals.nodes}
    assert {each["spec"]["priorityClassName"] for each in pods} == {"system-node-critical"}


def test_its_account_speaks_of_the_node_of_its_pod_and_of_no_other(signals: Signals) -> None:
    own, other, *_ = signals.nodes
    token = signals.token(own)
    answer = signals.asked(token, "PATCH", status_of(own))
    assert (answer.status_code, answer.json()["metadata"]["name"]) == (200, own)
    refused = signals.asked(token, "PATCH", status_of(other))
    assert refused.status_code == 403
    assert refused.json()["message"].endswith(
        f"node-signals may speak of the node that its own pod is on, and not of {other}"
    )


def test_a_token_of_its_account_that_is_of_no_pod_speaks_of_nobody(signals: Signals) -> None:
    token = signals.kubectl("create", "token", ACCOUNT)
    refused = signals.asked(token, "PATCH", status_of(signals.nodes[0]))
    assert refused.status_code == 403
    assert "its own pod is on" in refused.json()["message"]


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/api/v1/nodes/signals-1"),
        ("PATCH", "/api/v1/nodes/signals-1"),
        ("PUT", "/api/v1/nodes/signals-1/status"),
        ("GET", "/api/v1/nodes"),
        ("GET", "/api/v1/pods"),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets"),
        ("DELETE", "/api/v1/nodes/signals-1"),
    ],
)
def test_its_account_may_do_nothing_else(signals: Signals, verb: str, path: str) -> None:
    answer = signals.asked(signals.token("signals-1"), verb, path)
    assert answer.status_code == 403
    assert f'User "system:serviceaccount:{NAMESPACE}:{ACCOUNT}" cannot' in answer.json()["message"]


def test_without_its_one_verb_nothing_is_told_until_it_is_there_again(signals: Signals) -> None:
    node = signals.nodes[1]
    at = "clusterrole/holdfast-node-signals"
    shipped = json.loads(signals.plane.kubectl("get", at, "-o", "json"))["rules"]
    (rule,) = shipped
    assert (rule["resources"], rule["verbs"]) == (["nodes/status"], ["patch"])
    try:
        has_rules(signals, at, [])
        token = signals.token(node)
        eventually(
            lambda: signals.asked(token, "PATCH", status_of(node)).status_code == 403, "it may not"
        )
        with signals.process(node, token=token) as process:
            process.says("cannot patch resource")
            assert signals.said(node) == {}
            has_rules(signals, at, shipped)
            eventually(lambda: signals.said(node) == QUIET, "it is told")
    finally:
        has_rules(signals, at, shipped)
    audit = Audit(signals.plane.audit_log, whole=True)
    assert audit.used(f"{NAMESPACE}:{ACCOUNT}") == {"patch nodes/status"}


def has_rules(signals: Signals, role: str, rules: list[Object]) -> None:
    patch = json.dumps({"rules": rules})
    signals.plane.kubectl("patch", role, "--type=merge", "-p", patch)


def test_a_suspect_is_told_of_with_a_token_that_came_later_and_the_driver_takes_it_as_evidence(
    signals: Signals,
) -> None:
    node = signals.nodes[2]
    with signals.process(node, token="none") as process:
        process.says("the API server refuses (401): Unauthorized.")
        assert signals.said(node) == {}
        process.gets_token(signals.token(node))
        eventually(lambda: signals.said(node) == QUIET, "it says that nothing was found")
        assert facts.fact_of(signals.node(node), NOW).problem == ""
        process.kernel_says(31)
        process.kernel_says(74)
        eventually(lambda: signals.said(node) == QUIET | {XID_ERRORS: "True Xid74"}, "it is told")
        fact = facts.fact_of(signals.node(node), NOW)
    managed = signals.node(node)["metadata"]["managedFields"]
    assert {each["manager"] for each in managed if XID_ERRORS in str(each)} == {FIELD_MANAGER}
    assert fact.problem.startswith(
        "XIDErrors is True: NVLink error: NVRM: Xid (PCI:0000:3b:00): 74, pid=1"
    )
    assert (fact.present, fact.conclusive, fact.closed) == (True, False, "")
    heard = eventually(lambda: findings(signals, node), "the driver has heard of it")
    assert [(each.kind, each.weight) for each in heard] == [(Kind.NODE_PROBLEM, Weight.SUSPECT)]


def findings(signals: Signals, node: str) -> list[Finding]:
    """What the driver has found about the node, as its journal has it."""
    events = [entry.event for entry in signals.driven.driver.journal()]
    told = [each.finding for each in events if isinstance(each, Found)]
    return [each for each in told if each.node == node]


async def test_a_fault_while_the_api_server_is_away_is_told_when_it_is_back(
    signals: Signals,
) -> None:
    node = signals.nodes[3]
    at = urlsplit(signals.plane.url)
    assert at.hostname is not None
    assert at.port is not None
    async with cuttable(at.hostname, at.port) as relay:
        url = f"https://{at.hostname}:{relay.at_port}"
        token = signals.token(node)
        with signals.process(node, url=url, token=token) as process:
            await eventually_async(lambda: signals.said(node) == QUIET, "it says so")
            await relay.cut()
            process.kernel_says(64)
            await eventually_async(
                lambda: "no answer from the API server" in process.log.read_text(), "it is said"
            )
            assert signals.said(node) == QUIET
            await relay.mend()
            told = QUIET | {XID_ERRORS: "True Xid64"}
            await eventually_async(lambda: signals.said(node) == told, "it is told")


def test_a_conclusive_xid_has_the_driver_replace_the_node_and_outlives_all_but_a_reboot(
    signals: Signals,
) -> None:
    signals.driven.apply("job", nodes=1)
    (pod,) = signals.driven.bound("job", 1)
    node = pod["spec"]["nodeName"]
    told = QUIET | {HARDWARE_FAULT: "True Xid79"}
    process = signals.process(node)
    with process:
        eventually(lambda: signals.said(node) == QUIET, "it says that nothing was found")
        process.kernel_says(79)
        process.kernel_says(48)
        eventually(lambda: distrusted(signals.node(node)), "the driver has put its taint there")
    assert signals.said(node) == told, "the first is the one that is told"
    assert "GPU has fallen off the bus" in (facts.distrust_of(signals.node(node)) or "")
    eventually(lambda: places(signals, "job") - {node}, "it has another node")
    before = patches(signals, node)
    with process:
        eventually(lambda: len(patches(signals, node)) > len(before), "it has looked")
    assert not any(patches(signals, node)[len(before) :]), "it has nothing to write"
    assert signals.said(node) == told
    process.boots("22222222-2222-4222-8222-222222222222")
    with process:
        eventually(lambda: signals.said(node) == QUIET, "the node has started again")
    assert distrusted(signals.node(node)), "only the driver takes its taint off"
    signals.driven.clear("job")


def places(signals: Signals, job: str) -> set[str]:
    """The nodes of its pods that are to stay."""
    return {pod["spec"]["nodeName"] for pod in signals.driven.bound(job, 1)}


def distrusted(node: Object) -> bool:
    return facts.distrust_of(node) is not None


def patches(signals: Signals, node: str) -> list[Object]:
    """What was taken from its account for the node, by the audit log; an empty one is a look."""
    account = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
    taken = (each for each in signals.plane.audit() if each["responseStatus"]["code"] == 200)
    by_it = (each for each in taken if each["user"].get("username") == account)
    return [each["requestObject"] for each in by_it if each["objectRef"].get("name") == node]
