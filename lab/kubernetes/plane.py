"""A whole control plane on this machine, for as long as a `with`.

Used by `holdfast lab kubernetes up`, the demo and tests/kubernetes:

    with ControlPlane(folder) as plane:
        plane.kubectl("apply", "-f", "-", input=manifest)
        node = plane.kubeconfig("system:node:node-1", ["system:nodes"], name="node-1")

Ports, folder, authority and identities are its own. Its programs end with this process, however it
ends. Must not change what stock Kubernetes does, except for how soon a silent node is NotReady.
"""

import json
import shutil
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import httpx

from holdfast.keeper import processes
from holdfast.kubeapi import paths
from holdfast.lab.kubernetes import flags
from holdfast.lab.kubernetes.admin import Admin
from holdfast.lab.kubernetes.flags import HOST, SERVICE_IP, Places
from holdfast.lab.kubernetes.identities import Identities
from holdfast.lab.kubernetes.kubectl import KubectlFailed as KubectlFailed
from holdfast.lab.kubernetes.kubectl import kubectl
from holdfast.lab.kubernetes.ports import free_ports
from holdfast.lab.kubernetes.process import Process
from holdfast.lab.kubernetes.programs import command

COMPONENTS: dict[str, Callable[[Places], list[str]]] = {
    "etcd": flags.etcd,
    "kube-apiserver": flags.kube_apiserver,
    "kube-controller-manager": flags.kube_controller_manager,
    "kube-scheduler": flags.kube_scheduler,
}
"""By name, in the order in which they start; they end in the opposite one."""
FOLLOWERS = ("kube-controller-manager", "kube-scheduler")
"""Those that may give up while the API server is away."""
GIVES_UP_S = 15.0
"""One of these that has only just begun waits for the API server for ten seconds, and ends."""
USERS = {
    "admin": ("admin", ["system:masters"]),
    "kube-controller-manager": ("system:kube-controller-manager", []),
    "kube-scheduler": ("system:kube-scheduler", []),
}
DNS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
READY_WITHIN_S = 120.0
ANSWERS_WITHIN_S = 60.0
"""As long as kubectl is given: on a busy machine an API server may stand still for seconds."""
LOOK_S = 0.05


class NotReady(Exception):
    """The control plane, or a part of it, did not come up; the message has the end of its log."""


class ControlPlane(Admin):
    """One control plane. `also_at`: further addresses under which nodes reach its API server.

    `grace_s`: how long a node may be silent before it is NotReady. `audit_policy`: what the audit
    log keeps, one of `flags`. `more`: further flags, by component.
    """

    def __init__(
        self,
        folder: Path,
        *,
        also_at: Sequence[str] = (),
        grace_s: float = 8.0,
        audit_policy: str = flags.AUDIT_POLICY,
        more: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        api, etcd, peer = free_ports(3)
        self.at = Places(folder.resolve(), api, etcd, peer, grace_s)
        self.url = f"https://{HOST}:{self.at.api_port}"
        self.ca = self.at.certificate("ca")
        self.admin = self.at.kubeconfig("admin")
        self.audit_log = self.at.audit_log
        self._hosts = [HOST, SERVICE_IP, *also_at, *DNS]
        self._audit_policy = audit_policy
        self._more = more
        self._running: dict[str, Process] = {}
        self._away_s: float | None = 0.0  # since when the API server is; None while it is there
        self.starts: list[tuple[float, float]] = []
        """Of the API server: when it was started, and when it was ready; Unix time."""

    def __enter__(self) -> Self:
        self.at.folder.mkdir(parents=True, exist_ok=True)
        self.at.audit_policy.write_text(self._audit_policy)
        self._identities = Identities(self.at.folder / "identities")
        self._identities.server("server", self._hosts)
        self._identities.server("service-accounts", ["service-accounts"])
        for name, (user, groups) in USERS.items():
            self.kubeconfig(user, groups, name=name)
        self._http = httpx.Client(
            base_url=self.url, verify=self._trust(), trust_env=False, timeout=ANSWERS_WITHIN_S
        )
        try:
            for component in COMPONENTS:
                self.start(component)
            self._until(self._settled, "the control plane to be ready")
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.end()

    # ------------------------------------------------------------ what its users do

    def kubeconfig(self, user: str, groups: Sequence[str] = (), *, name: str) -> Path:
        """A kubeconfig, identities/NAME.yaml, for `user` in `groups`; RBAC says what it may."""
        return self._identities.kubeconfig(name, user=user, groups=groups, url=self.url)

    def kubectl(self, *arguments: str, input: str = "", within_s: float = 60.0) -> str:  # noqa: A002
        """What kubectl printed, as admin. Raises `KubectlFailed` with what it said instead, or
        `NotReady` where a program of ours has ended: that it was refused says less.
        """
        try:
            return kubectl(self.admin, arguments, input=input, within_s=within_s)
        except KubectlFailed:
            self.check()
            raise

    def as_account(self, namespace: str, name: str, *, url: str = "") -> Path:
        """A kubeconfig for a service account with a token of its own, as its pods have one."""
        token = self.token(namespace, name)
        return self._identities.with_token(name, token, url=url or self.url)

    def certificate(self, name: str, hosts: Sequence[str]) -> tuple[Path, Path]:
        """Certificate and key, of our authority, for whoever else answers at `hosts`."""
        self._identities.server(name, hosts)
        return self.at.certificate(name), self.at.key(name)

    def read(self, path: str) -> dict[str, Any]:
        """The object or list at a path of the API, as admin; nothing where there is none.

        Raises `httpx.HTTPError` where it cannot be had, `NotReady` where a program has ended.
        """
        try:
            answer = self._http.get(self.url + path)
        except httpx.TransportError:
            self.check()
            raise
        if answer.status_code == httpx.codes.NOT_FOUND:
            return {}
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    def audit(self, since_bytes: int = 0) -> list[dict[str, Any]]:
        """Events of the audit log, oldest first; all so far, or those after its first bytes.

        The API server writes in blocks: an event of which a part lies before them is left out.
        """
        with self.audit_log.open("rb") as log:
            log.seek(max(0, since_bytes - 1))
            if since_bytes:
                log.readline()
            whole = log.read().rpartition(b"\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    # ------------------------------------------------------------ what is done to it

    def start(self, component: str) -> None:
        """Start one of COMPONENTS; returns once it answers. Raises `NotReady`.

        What gave up while the API server was away comes back with it, as a kubelet would have it.
        """
        flags_of = [*COMPONENTS[component](self.at), *self._more.get(component, ())]
        words = [*command(component), *flags_of]
        log, began_s = self.at.folder / f"{component}.log", time.time()
        self._running[component] = Process(component, words, log=log)
        if component == "kube-apiserver":
            self._until(self.ready, "the API server to be ready")
            self.starts.append((began_s, time.time()))
            since_s, self._away_s = self._away_s or 0.0, None
            for each in self._given_up(since_s):
                self.stop(each)
                self.start(each)

    def stop(self, component: str) -> None:
        """End one of COMPONENTS in its own time, and wait until it has ended."""
        if component == "kube-apiserver":
            self._away_s = time.monotonic()
        self._running.pop(component).stop()

    def _given_up(self, since_s: float) -> list[str]:
        """Those that gave up while the API server was away, or that may be about to."""
        there = {name: self._running[name] for name in FOLLOWERS if name in self._running}
        young_s = since_s - GIVES_UP_S
        return [name for name, each in there.items() if each.ended or each.began_s > young_s]

    def end(self) -> None:
        """End all of it, also before its `with` does. Its data goes too: what is left are logs."""
        self._http.close()
        for component in reversed(list(self._running)):
            self._running.pop(component).kill()
        shutil.rmtree(self.at.folder / "etcd", ignore_errors=True)

    def renew(self) -> None:
        """Start anew what follows the API server: the longer that was away, the more seldom they
        look for it, and for a minute after it is back nodes stay as they were.
        """
        for component in FOLLOWERS:
            self.stop(component)
            self.start(component)

    def runs(self, component: str) -> bool:
        """Whether it was started and not stopped since, however busy it is."""
        return component in self._running

    def pid(self, component: str) -> int:
        """Of one of COMPONENTS: what can be stopped and continued from outside."""
        return self._running[component].pid

    def compact(self) -> None:
        """Have etcd forget all but its present revision: older watches are then answered 410."""
        etcd = f"{self.at.etcd_url}/v3/kv"
        header = self._http.post(f"{etcd}/range", json={"key": "AA=="}).json()["header"]
        told = {"revision": header["revision"], "physical": True}
        self._http.post(f"{etcd}/compaction", json=told).raise_for_status()

    def ready(self) -> bool:
        """Does the API server say that it is ready?"""
        return self._answers("/readyz")

    def check(self) -> None:
        """Raise `NotReady` where a program has ended by itself, and not because the API server is
        away.
        """
        for name, process in self._running.items():
            if process.ended and (self._away_s is None or name not in FOLLOWERS):
                raise NotReady(process.last_words())

    def leftovers(self) -> list[int]:
        """Processes of its programs, found by looking at the machine: its folder is named."""
        place = str(self.at.folder).encode()
        return [pid for pid in processes.all_pids() if place in processes.command_of(pid)]

    # ------------------------------------------------------------ inside

    def _settled(self) -> bool:
        """The controllers run: a pod may be made once its namespace has its service account."""
        return self._answers(paths.service_accounts("default", "default"))

    def _answers(self, path: str) -> bool:
        try:
            return self._http.get(self.url + path).is_success
        except httpx.TransportError:
            return False

    def _trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self.at.certificate("admin"), self.at.key("admin"))
        return context

    def _until(self, fact: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + READY_WITHIN_S
        while not fact():
            self.check()
            if time.monotonic() > deadline_s:
                raise NotReady(f"not within {READY_WITHIN_S:g} s: {what}; logs: {self.at.folder}")
            time.sleep(LOOK_S)
