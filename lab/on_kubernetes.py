"""A laboratory on a real Kubernetes: emulated nodes in a control plane, and a driver for them.

Used by the demo and chaos in the place of a `Lab`. Jobs are applied with kubectl, and the driver is
the shipped service account, with exactly its role. Must not tell the driver anything that a user
would not.
"""

import json
import shlex
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import yaml

from holdfast.driver.adapters.kubernetes import podspec
from holdfast.keeper.state import KeeperState
from holdfast.kit.files import private_folder
from holdfast.kit.supervise import Child, Lifeline
from holdfast.kubeapi import paths
from holdfast.lab import replaying
from holdfast.lab.cluster import Lab
from holdfast.lab.emulator.kubelet import joined
from holdfast.lab.emulator.kubelet.joined import Joined
from holdfast.lab.emulator.leftovers import Leftovers
from holdfast.lab.kubernetes import marks, proxy
from holdfast.lab.kubernetes.build import NotHere
from holdfast.lab.kubernetes.given import AnyPlane
from holdfast.lab.kubernetes.ports import free_ports
from holdfast.lab.operators import LEASE, Operator, operators
from holdfast.lab.supervised import Supervised
from holdfast.protocol.paths import RunPaths

SHIPPED = Path(__file__).parents[3] / "deploy" / "kubernetes" / "base"
MANIFESTS = ("namespace.yaml", "crd.yaml", "priorities.yaml", "rbac.yaml")
"""Of those that are shipped. The driver itself runs beside, for there is no image of it here."""
ACCOUNT = ("holdfast", "holdfast-driver")
DRIVER = f"system:serviceaccount:{':'.join(ACCOUNT)}"
IMAGE = "holdfast-executor:1"
STORE = "/run/checkpoints"
"""Where pods have the folder for checkpoints that all of them share."""
LEASE_RIGHTS = "lease.yaml"
NODE_LEASE_S = 4
"""A silent node is NotReady in seconds; a kubelet's own 40 s would only make people wait."""


def manifests() -> list[str]:
    """What names them to kubectl. Raises `NotHere`."""
    if not SHIPPED.is_dir():
        raise NotHere(f"{SHIPPED} is not here: run this in a checkout of Holdfast.")
    return [f"--filename={SHIPPED / manifest}" for manifest in MANIFESTS]


def install(plane: AnyPlane) -> None:
    """What a cluster has to have, as `kubectl apply -k` would, without the Deployment.

    Raises `NotHere`, `KubectlFailed`.
    """
    plane.kubectl("apply", *manifests())
    definition = ("wait", "--for=condition=Established", "crd/trainingjobs.holdfast.dev")
    plane.kubectl(*definition)


class KubernetesLab(Lab):
    """One laboratory on a control plane that `install` was called for.

    `show` is told each command of kubectl and what it printed. `proxied`: the driver reaches the
    API server by a `proxy` of its own. `driver`: the module that is run as the driver. `journal`:
    the database where its journal is, that others could share; the driver then leads by the LEASE.
    `two`: another driver shares it. `relayed`: nodes reach the driver by a relay that can repeat
    what they say to each other (`replaying`).
    """

    def __init__(
        self,
        root: Path,
        plane: AnyPlane,
        *,
        nodes: int,
        standbys: int,
        racks: int,
        show: Callable[[str], None],
        namespace: str = "default",
        proxied: bool = False,
        driver: str = "holdfast.driver.main",
        journal: str = "",
        two: bool = False,
        relayed: bool = False,
    ) -> None:
        super().__init__(root, nodes=nodes, standbys=standbys, racks=racks)
        self.plane = plane
        self.namespace = namespace
        self._operators = operators(self.run, free_ports(1)[0] if two else 0)
        more = ["--racks", str(racks), "--lease-s", str(NODE_LEASE_S)]
        reached_by = replaying.socket_of(self.run.root) if relayed else self.run.socket
        more += ["--driver-socket", str(reached_by)]
        more += [word for operator in self._operators for word in operator.way]
        place = self.run.root / "nodes"
        self.joined = Joined(self.plane, place, nodes=nodes + standbys, more=more)
        self.run_id = self.joined.run_id
        self._show = show
        self._proxy_port = free_ports(1)[0] if proxied else 0
        self._relayed = relayed
        self._module = driver
        self._journal = journal
        self._up = ExitStack()

    def __enter__(self) -> Self:
        private_folder(self.run.root)
        if self.namespace != "default":
            self.plane.kubectl("create", "-f", "-", input=json.dumps(self._own_namespace()))
        if self._journal:
            self.plane.kubectl("apply", f"--filename={SHIPPED / LEASE_RIGHTS}")
        with ExitStack() as up:
            lifeline = Lifeline()
            children = [self._proxy(lifeline)] if self._proxy_port else []
            children += [self._relay(lifeline)] if self._relayed else []
            children += [self._operator(each, lifeline) for each in self._operators]
            self._supervised = Supervised(children, lifeline)
            up.callback(self._supervised.end)
            up.enter_context(self.joined)
            self._up = up.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._up.close()
        self._http.close()

    # ------------------------------------------------------------ the cluster

    def state(self) -> KeeperState | None:
        try:
            return self.joined.state()
        except joined.NotReady:
            return None

    def pid(self, process: str) -> int:
        """Of "kubelet" too, one process for all nodes; of "proxy" and "relay" where they are."""
        return self.joined.kubelet_pid() if process == "kubelet" else super().pid(process)

    def ready(self, within_s: float = 60.0) -> None:
        """Wait until every node is Ready. No executor is there before a job has pods."""
        self.joined.ready(within_s)

    def store(self, job: str) -> Path:
        return self.run.root / "checkpoints"

    def drivers_up(self) -> list[str]:
        """Names of the drivers whose process is there."""
        return [each.name for each in self._operators if self.pid(each.name)]

    def leader(self) -> str:
        """Name of the driver that has the Lease; "" where nobody has."""
        lease = self.plane.read(paths.leases(*LEASE))
        holder = lease.get("spec", {}).get("holderIdentity") or ""
        return str(holder).partition(" at ")[0]

    def asked(self) -> RunPaths:
        """Of two drivers people ask the one that leads."""
        states = {each.name: each.run for each in self._operators}
        return states.get(self.leader(), self.run) if len(states) > 1 else self.run

    def leftovers(self) -> Leftovers:
        return self.joined.leftovers()

    # ------------------------------------------------------------ kubectl, as a user has it

    def kubectl(self, *words: str, since: str = "") -> None:
        """Run it; command and answer are shown, the answer from its line `since` on, if given.

        Raises `KubectlFailed`.
        """
        words = words if self.namespace == "default" else ("-n", self.namespace, *words)
        said = self.plane.kubectl(*words).rstrip()
        _, found, rest = said.partition(f"\n{since}") if since else ("", "", "")
        shown = f"…{found}{rest}" if found else said
        self._show(f"$ kubectl {shlex.join(words)}\n{shown}\n")

    def submit(self, job: dict[str, Any], within_s: float = 30.0) -> str:
        """Apply it from a file, for pods. Raises `KubectlFailed`, `TooLate`."""
        name: str = job["metadata"]["name"]
        file = self.run.root / f"{name}.yaml"
        file.write_text(yaml.safe_dump(self._for_pods(job), sort_keys=False))
        self.kubectl("apply", "-f", str(file))
        known = f"the driver has seen {name}"
        self.until(lambda: self._is_known(name), known, within_s)
        return name

    def update(self, name: str, *, env: Mapping[str, str]) -> None:
        """The same by a patch of the object. Raises `KubectlFailed`."""
        patch = json.dumps({"spec": {"env": dict(env)}})
        self.kubectl("patch", "tj", name, "--type=merge", "-p", patch)

    def _for_pods(self, job: dict[str, Any]) -> dict[str, Any]:
        """With an image, and with folders of this machine for checkpoints and what ranks write."""
        store = self.store(job["metadata"]["name"])
        places = {STORE: store, f"{podspec.SCRATCH}/jobs": self.run.job("")}
        for place in places.values():
            place.mkdir(exist_ok=True)
        volumes = [
            {"name": place.name, "mountPath": shown, "hostPath": {"path": str(place)}}
            for shown, place in places.items()
        ]
        checkpoint = {**job["spec"]["checkpoint"], "storeUrl": f"file://{STORE}"}
        pod = {"image": IMAGE, "volumes": volumes, **job["spec"].get("pod", {})}
        return {**job, "spec": {**job["spec"], "checkpoint": checkpoint, "pod": pod}}

    def _own_namespace(self) -> dict[str, Any]:
        meta = {"name": self.namespace, "labels": {marks.RUN: self.run_id}}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}

    def _is_known(self, name: str) -> bool:
        return any(job["name"] == name for job in self.ask("GET", "/jobs")["items"])

    def _operator(self, operator: Operator, lifeline: Lifeline) -> Child:
        """A driver for one namespace, which nodes reach by their gateway."""
        port = self._proxy_port
        at = f"https://{proxy.HOST}:{port}" if port else ""
        who = self.plane.as_account(*ACCOUNT, url=at)
        words = ["--cluster", "kubernetes", "--kubeconfig", str(who)]
        words += ["--namespace", self.namespace]
        words += ["--node-selector", f"{marks.RUN}={self.run_id}"]
        words += operator.words(self._journal, ",".join(each.url for each in self._operators))
        return self._child(operator.name, self._module, words, lifeline, operator.run.root)

    def _proxy(self, lifeline: Lifeline) -> Child:
        certificate, key = self.plane.certificate("proxy", [proxy.HOST])
        words = ["--port", str(self._proxy_port), "--to", self.plane.url]
        words += ["--ca", str(self.plane.ca), "--certificate", str(certificate), "--key", str(key)]
        return self._child("proxy", "holdfast.lab.kubernetes.proxy", words, lifeline)

    def _relay(self, lifeline: Lifeline) -> Child:
        words = ["--to", str(self.run.socket)]
        return self._child("relay", "holdfast.lab.replaying", words, lifeline)
