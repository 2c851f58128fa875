"""Pods of a shell on emulated nodes that joined a real control plane, and what is known of them.

Used by tests of the emulated kubelet.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from waiting import DEADLINE_S, eventually

from holdfast.keeper import processes
from holdfast.kubeapi import paths
from holdfast.lab.emulator.kubelet.joined import Joined
from holdfast.lab.emulator.namespaces import Kind, best_kind

OPTIONS = ["--racks", "2", "--lease-s", "4", "--restart-base-s", "0.5", "--token-oldest-s", "2"]
OPTIONS += ["--image", "busybox"]
COUNT = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.1; done"


class Pods:
    """Pods of one test, each with one container `main` of a shell, all gone after it."""

    def __init__(self, plane, nodes: Joined) -> None:
        self._plane = plane
        self.nodes = nodes
        self._names: list[str] = []

    def run(self, name: str, script: str, **spec: Any) -> None:
        container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
        container |= spec.pop("container", {})
        spec = {"containers": [container], "automountServiceAccountToken": False, **spec}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self._plane.apply(paths.pods("default", name), pod)
        self._names.append(name)

    def apply(self, manifest: dict[str, Any]) -> None:
        self._plane.kubectl(
            "apply", "-f", "-", input=yaml.safe_dump({"apiVersion": "v1"} | manifest)
        )

    def get(self, name: str) -> dict[str, Any] | None:
        return self._plane.read(paths.pods("default", name)) or None

    def seen(self, name: str, fact: Callable[[dict[str, Any]], Any], what: str) -> dict[str, Any]:
        """The pod once `fact` holds for it; where it never does, how the pod is."""

        def holds() -> dict[str, Any] | None:
            pod = self.get(name)
            return pod if pod and fact(pod) else None

        try:
            return eventually(holds, what)
        except TimeoutError as late:
            raise TimeoutError(f"{late}, but {json.dumps(self.get(name))}") from late

    def running(self, name: str) -> dict[str, Any]:
        return self.seen(name, ready, f"{name} is ready")

    def ended(self, name: str) -> dict[str, Any]:
        """The container's last state, once the pod is over."""
        pod = self.seen(name, lambda pod: phase(pod) in ("Succeeded", "Failed"), f"{name} is over")
        return main(pod)["state"]["terminated"] | {"phase": phase(pod)}

    def output(self, name: str) -> str:
        """Of the last life of its container, as it is on the machine."""
        node = next(iter(self.nodes.root.glob(f"nodes/*/pods/default_{name}_*")))
        lives = sorted(node.glob("main/*.log"), key=lambda path: int(path.stem))
        return lives[-1].read_text() if lives else ""

    def delete(self, name: str, *options: str) -> None:
        self._plane.kubectl("delete", "pod", name, "--wait=false", *options)

    def end(self) -> None:
        for name in self._names:
            self._plane.delete(paths.pods("default", name), grace_s=1)
        for name in self._names:
            eventually(lambda name=name: self.get(name) is None, f"{name} is gone")


@contextmanager
def joined_nodes(plane, root: Path) -> Iterator[Joined]:
    """Two nodes, Ready; nothing of them is left."""
    if best_kind()[0] is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {best_kind()[1]}")
    with Joined(plane, root, nodes=2, more=OPTIONS) as joined:
        joined.ready(DEADLINE_S)
        yield joined
    left = joined.leftovers()
    assert left.count == 0, left


@contextmanager
def pods_on(plane, nodes: Joined) -> Iterator[Pods]:
    made = Pods(plane, nodes)
    try:
        yield made
    finally:
        made.end()


def phase(pod: dict[str, Any]) -> str:
    return pod["status"]["phase"]


def main(pod: dict[str, Any]) -> dict[str, Any]:
    return pod["status"]["containerStatuses"][0]


def started(pod: dict[str, Any]) -> bool:
    """Whether its container runs and its startup probe, where it has one, has passed."""
    return any(each.get("started") for each in pod["status"].get("containerStatuses", []))


def ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def waiting(pod: dict[str, Any]) -> str:
    """Why its container waits, "" where it does not."""
    told = pod["status"].get("containerStatuses", [])
    return told[0]["state"].get("waiting", {}).get("reason", "") if told else ""


def on(node: str) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def node_is(plane, name: str, word: str) -> bool:
    conditions = plane.read(paths.nodes(name))["status"]["conditions"]
    return [each["status"] for each in conditions if each["type"] == "Ready"] == [word]


def running(nodes: Joined, uid: str) -> list[int]:
    """Processes of this machine that still write the log of the pod, a container's init first."""
    return [pid for pid in sorted(processes.marked(nodes.run_id)) if uid in _output(pid)]


def _output(pid: int) -> str:
    """Where its standard output goes; "" where it is gone by now."""
    try:
        return str(Path(f"/proc/{pid}/fd/1").readlink())
    except OSError:
        return ""


def writes(plane, subresource: str) -> list[dict[str, Any]]:
    """What was done to this subresource of any object, by the audit log."""
    told = [event for event in plane.audit() if "objectRef" in event]
    return [event for event in told if event["objectRef"].get("subresource") == subresource]


def renewed(plane, name: str) -> str:
    return plane.read(paths.leases("kube-node-lease", name))["spec"]["renewTime"]
