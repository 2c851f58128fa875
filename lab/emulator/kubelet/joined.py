"""Emulated nodes in a control plane, for as long as a `with`: for the demo, chaos and tests.

    with ControlPlane(folder) as plane, Joined(plane, folder / "nodes", nodes=4) as nodes:
        nodes.ready()
        nodes.unplug("node-2")

What is done here to a node is done from outside and told to nobody. Must not be used by anything
that the driver's word depends on.
"""

import json
import os
import secrets
import time
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Self

from holdfast.keeper import processes
from holdfast.keeper import state as states
from holdfast.keeper.state import KeeperState, NodeRecord
from holdfast.kit.supervise import Child, Lifeline
from holdfast.kubeapi import paths
from holdfast.lab.emulator.inside import in_switch
from holdfast.lab.emulator.kubelet import knobs
from holdfast.lab.emulator.kubelet.images import pushed_file
from holdfast.lab.emulator.kubelet.knobs import Knobs
from holdfast.lab.emulator.leftovers import Leftovers, look
from holdfast.lab.emulator.namespaces import Kind
from holdfast.lab.kubernetes.given import AnyPlane
from holdfast.lab.supervised import Supervised

LOOK_S = 0.05
NOT_READY = "node.kubernetes.io/not-ready"
WATCHER = "holdfast:emulated-kubelet"


def role() -> str:
    """What the shared watches of the nodes may do: manifests that every cluster needs once."""
    return resources.files(__package__).joinpath("role.yaml").read_text()


class NotReady(Exception):
    """The nodes did not come; the message says where their logs are."""


class Joined:
    """The nodes `node-1` to `node-N`. `more`: further options of `kubelet.main`."""

    def __init__(
        self,
        plane: AnyPlane,
        root: Path,
        *,
        nodes: int,
        kind: Kind | None = None,
        more: Sequence[str] = (),
    ) -> None:
        self.root = root.resolve()
        self.run_id = secrets.token_hex(6)
        self.names = [f"node-{place + 1}" for place in range(nodes)]
        self._plane = plane
        self._more = [*more, "--kind", kind] if kind else [*more]
        self._supervised: Supervised | None = None

    def __enter__(self) -> Self:
        self.root.mkdir(parents=True, exist_ok=True)
        for name in self.names:
            self._plane.kubeconfig(f"system:node:{name}", ["system:nodes"], name=name)
        identities = self._plane.kubeconfig(WATCHER, name="kubelet").parent
        self._plane.kubectl("apply", "-f", "-", input=role())
        lifeline = Lifeline()
        words = ["--state", str(self.root), "--kubeconfig-dir", str(identities)]
        words += ["--run-id", self.run_id, "--nodes", str(len(self.names)), *self._more]
        child = Child(
            "nodes",
            "holdfast.lab.emulator.kubelet.main",
            words,
            log=self.root / "nodes.log",
            lifeline=lifeline,
            environment=os.environ | {processes.RUN_MARK: self.run_id},
        )
        self._supervised = Supervised([child], lifeline)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._supervised is not None:
            self._supervised.end()
        self._plane.kubectl("delete", "node", "--ignore-not-found", "--wait=false", *self.names)

    # ------------------------------------------------------------ what there is

    def state(self) -> KeeperState:
        """What the keeper wrote. Raises `NotReady` before it has."""
        found = states.load(self.root)
        if found is None:
            raise NotReady(f"there are no nodes yet; logs are in {self.root}")
        return found

    def node(self, name: str) -> NodeRecord:
        return self.state().nodes[name]

    def ready(self, within_s: float = 60.0) -> None:
        """Wait until every node is Ready and takes pods. Raises `NotReady`."""

        def all_ready() -> bool:
            if states.load(self.root) is None:
                return False  # nodes of these names that are there are of who was here before
            listed = self._plane.read(paths.nodes())["items"]
            return set(self.names) <= {node["metadata"]["name"] for node in listed if _ready(node)}

        self._until(all_ready, "all nodes are Ready", within_s)

    @property
    def pid(self) -> int:
        """Of the process that keeps the cluster, the way out and the kubelet up."""
        return self._supervised.children["nodes"].pid if self._supervised else 0

    def kubelet_pid(self) -> int:
        """Of the kubelet of all nodes, 0 between two lives."""
        path = self.root / "kubelet.json"
        pid = int(json.loads(path.read_bytes())["pid"]) if path.exists() else 0
        return pid if pid and processes.start_ticks(pid) else 0

    def leftovers(self) -> Leftovers:
        """What of these nodes is on the machine now, found by looking at the machine."""
        return look(self.run_id, self.root)

    # ------------------------------------------------------------ what is done to it

    def unplug(self, name: str) -> None:
        """Cut the node's link: nobody outside hears of it any more, and what runs there goes on."""
        in_switch(self.state(), "ip", "link", "set", self.node(name).switch_interface, "down")

    def plug(self, name: str) -> None:
        """The link is there again."""
        in_switch(self.state(), "ip", "link", "set", self.node(name).switch_interface, "up")

    def kill(self, name: str) -> None:
        """The node is lost, with all that runs on it, for good."""
        processes.kill(self.node(name).host_pid)

    def kill_kubelet(self) -> None:
        """SIGKILL to the kubelet of all nodes, which is started again; what runs goes on."""
        processes.kill(self.kubelet_pid())

    def turn(self, name: str, how: Knobs) -> None:
        """Break the kubelet of this node; `Knobs()` mends it."""
        knobs.turn(Path(self.node(name).folder), how)

    def push(self, image: str) -> None:
        """From now on nodes can pull this image; it has no entry point of its own."""
        with pushed_file(self.root).open("a") as names:
            names.write(f"{image}\n")

    def _until(self, fact: Callable[[], bool], what: str, within_s: float) -> None:
        deadline_s = time.monotonic() + within_s
        while not fact():
            if self._supervised is not None and self._supervised.failure is not None:
                raise NotReady(f"{what}: {self._supervised.failure}")
            if time.monotonic() > deadline_s:
                raise NotReady(f"not within {within_s:g} s: {what}; logs are in {self.root}")
            time.sleep(LOOK_S)


def _ready(node: dict[str, Any]) -> bool:
    """Also without the taint of a node that is new, which a controller takes off a little later."""
    if any(taint["key"] == NOT_READY for taint in node["spec"].get("taints", ())):
        return False
    conditions = node["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
