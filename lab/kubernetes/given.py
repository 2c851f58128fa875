"""A cluster that a person gives us (kind, say) by its kubeconfig, in place of a `ControlPlane`.

Used by `lab.guest` and, where HOLDFAST_TEST_KUBECONFIG is set, by tests/kubernetes:

    with GivenCluster(kubeconfig, folder) as given:
        node = given.kubeconfig("system:node:node-1", ["system:nodes"], name="node-1")

We are its admin, and nothing more: identities are asked of it as anybody asks. Must not make up
what it does not show from outside (audit log, processes): asking for that raises `NotPossible`.
"""

import base64
import json
import secrets
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn, Self

import httpx

from holdfast.kit.clock import SystemClock
from holdfast.kit.files import check_socket_path, listens_at, private_folder
from holdfast.lab.kubernetes import kubeconfigs
from holdfast.lab.kubernetes.admin import Admin
from holdfast.lab.kubernetes.kubeconfigs import Unusable
from holdfast.lab.kubernetes.kubectl import KubectlFailed, kubectl, words
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.lab.kubernetes.process import Process

KUBECONFIG = "HOLDFAST_TEST_KUBECONFIG"
NAMED = "Name the kubeconfig of a test cluster's admin: --kubeconfig FILE"
ANSWERS_WITHIN = "--request-timeout=15s"
REACHED_WITHIN_S = 30.0
LOOK_S = 0.05
LOCAL = ("localhost", "127.0.0.1")


class NotPossible(Exception):
    """A given cluster does not let us do this; only a control plane of our own does."""


class GivenCluster(Admin):
    """The cluster of a kubeconfig, in the place of a `ControlPlane`.

    `folder` has the identities while it is used; kubectl's own file is only read.
    """

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.admin = kubeconfig.absolute()
        self._run = secrets.token_hex(6)
        self._folder = folder / "identities"
        self._socket = folder / "api.sock"
        self._up = ExitStack()
        self.ca = self._folder / "given-ca.crt"
        self._cluster: dict[str, str] = {}

    def __enter__(self) -> Self:
        said = checked(self.admin)
        check_socket_path(self._socket, "--folder")
        with ExitStack() as up:
            up.callback(self._forget)
            self._identify(said)
            self._http = up.enter_context(self._reach(up))
            self._up = up.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._up.close()

    def _identify(self, said: dict[str, str]) -> None:
        """Whom we trust, and an authority of our own for what listens here."""
        from holdfast.driver.adapters import authority  # needs an extra

        private_folder(self._folder)
        self.ca.write_bytes(base64.b64decode(said.pop("certificate-authority-data")))
        self._cluster = {**said, "certificate-authority": str(self.ca)}
        self._authority = authority.new_authority(SystemClock().wall())
        (self._folder / "ca.crt").write_text(self._authority.certificate)
        self.certificate("server", LOCAL)

    def _forget(self) -> None:
        """No key that the cluster has signed, and no token, stays here."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._socket.unlink(missing_ok=True)

    @property
    def url(self) -> str:
        return self._cluster["server"]

    # ------------------------------------------------------------ as `ControlPlane`

    def kubectl(self, *arguments: str, input: str = "", within_s: float = 60.0) -> str:  # noqa: A002
        return kubectl(self.admin, arguments, input=input, within_s=within_s)

    def read(self, path: str) -> dict[str, Any]:
        answer = self._http.get(path)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return {}
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    def kubeconfig(self, user: str, groups: Sequence[str] = (), *, name: str) -> Path:
        """As the cluster's own authority signs it. Raises `Unusable`."""
        from holdfast.lab.kubernetes.signed import signed  # needs an extra

        request = f"holdfast-lab-{self._run}-{name}"
        made = signed(self._http, request, run=self._run, user=user, groups=groups)
        certificate, key = self._write(name, made.certificate, made.key)
        who = {"client-certificate": str(certificate), "client-key": str(key)}
        path = self._folder / f"{name}.yaml"
        return kubeconfigs.write(path, cluster=self._cluster, user=user, who=who)

    def as_account(self, namespace: str, name: str, *, url: str = "") -> Path:
        """`url`: somebody before it, who shows a `certificate` of ours."""
        ours = {"server": url, "certificate-authority": str(self._folder / "ca.crt")}
        return kubeconfigs.write(
            self._folder / f"{name}.yaml",
            cluster=ours if url else self._cluster,
            user=name,
            who={"token": self.token(namespace, name)},
        )

    def certificate(self, name: str, hosts: Sequence[str]) -> tuple[Path, Path]:
        """Of an authority of our own: the cluster's signs for no server of ours."""
        from holdfast.driver.adapters import authority  # needs an extra

        made = authority.issue(self._authority, hosts, SystemClock().wall())
        return self._write(name, made.certificate, made.key)

    def __getattr__(self, name: str) -> NoReturn:
        raise NotPossible(f"a given cluster is not ours: it has no `{name}` that we may use.")

    # ------------------------------------------------------------ inside

    def _write(self, name: str, certificate: str, key: str) -> tuple[Path, Path]:
        paths = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        for path, content in zip(paths, (certificate, key), strict=True):
            path.touch(mode=0o600)
            path.write_text(content)
        return paths

    def _reach(self, up: ExitStack) -> httpx.Client:
        """By a kubectl that stays: it alone knows all the ways in which a kubeconfig says who."""
        command = words(self.admin, ["proxy", f"--unix-socket={self._socket}"])
        proxy = Process("kubectl proxy", command, log=self._folder.parent / "proxy.log")
        up.callback(proxy.kill)
        transport = httpx.HTTPTransport(uds=str(self._socket))
        deadline_s = time.monotonic() + REACHED_WITHIN_S
        while not listens_at(self._socket):
            if proxy.ended or time.monotonic() > deadline_s:
                raise Unusable(proxy.last_words())
            time.sleep(LOOK_S)
        return httpx.Client(base_url="http://localhost", transport=transport, timeout=30.0)


AnyPlane = ControlPlane | GivenCluster
"""What nodes can join and a driver can be pointed at."""


def checked(kubeconfig: Path) -> dict[str, str]:
    """What a kubeconfig says of its cluster, whose admin we are found to be. Raises `Unusable`."""
    if not kubeconfig.is_file():
        raise Unusable(f"kubeconfig {kubeconfig} is not there. {NAMED}")
    shown = ("config", "view", "--minify", "--flatten", "--raw", "-o", "json")
    said = _asked(kubeconfig, shown, f"kubeconfig {kubeconfig} cannot be used")
    cluster: dict[str, str] = json.loads(said)["clusters"][0]["cluster"]
    server = cluster["server"]
    if "certificate-authority-data" not in cluster:
        why = f"kubeconfig {kubeconfig} does not say who vouches for {server}"
        raise Unusable(f"{why}. Add its certificate-authority.")
    _asked(kubeconfig, ("get", "--raw", "/readyz", ANSWERS_WITHIN), f"{server} does not answer")
    everything = ("auth", "can-i", "*", "*", "--all-namespaces", "--quiet", ANSWERS_WITHIN)
    _asked(kubeconfig, everything, f"kubeconfig {kubeconfig} is no admin's at {server}")
    return {key: value for key, value in cluster.items() if key in KEPT}


KEPT = ("server", "certificate-authority-data", "tls-server-name")


def _asked(kubeconfig: Path, arguments: Sequence[str], otherwise: str) -> str:
    """What kubectl printed. Raises `Unusable` with a sentence that begins with `otherwise`."""
    try:
        return kubectl(kubeconfig, arguments)
    except KubectlFailed as failed:
        said = str(failed).strip().splitlines() or [""]
        why = f"{otherwise}: {said[-1].removeprefix('error: ').rstrip('.')}".rstrip(": ")
        raise Unusable(f"{why}{'' if why.endswith('?') else '.'} {NAMED}") from failed
