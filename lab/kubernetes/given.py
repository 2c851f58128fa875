"""A test cluster that a person gives us (kind, say), with what of `ControlPlane` it can offer.

Used by tests/kubernetes where HOLDFAST_TEST_KUBECONFIG is set. Must not make up what such a cluster
does not show from outside: asking for it raises `NotPossible`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from holdfast.lab.kubernetes.kubectl import KubectlFailed, kubectl

KUBECONFIG = "HOLDFAST_TEST_KUBECONFIG"


class NotPossible(Exception):
    """A given cluster does not let us do this; only a control plane of our own does."""


class GivenCluster:
    """The cluster of a kubeconfig, in the place of a `ControlPlane`."""

    def __init__(self, kubeconfig: Path) -> None:
        self.admin = kubeconfig
        server = "jsonpath={.clusters[0].cluster.server}"
        self.url = self.kubectl("config", "view", "--minify", "-o", server)

    def kubectl(self, *arguments: str, input: str = "", within_s: float = 60.0) -> str:  # noqa: A002
        """As `ControlPlane.kubectl`."""
        return kubectl(self.admin, arguments, input=input, within_s=within_s)

    def read(self, path: str) -> dict[str, Any]:
        """As `ControlPlane.read`."""
        try:
            found: dict[str, Any] = json.loads(self.kubectl("get", "--raw", path))
        except KubectlFailed as failed:
            if "NotFound" in str(failed):
                return {}
            raise
        return found

    def kubeconfig(self, user: str, groups: Sequence[str] = (), *, name: str) -> NoReturn:
        """Only whoever has the cluster's authority makes identities."""
        raise NotPossible(f"{self.url} makes no identity for {user} ({name}).")

    def __getattr__(self, name: str) -> NoReturn:
        raise NotPossible(f"{self.url} is not ours: it has no `{name}` that a test may use.")
