"""What an admin does to objects over HTTP, in the place of kubectl where that is not what is meant.

A base of `plane` and `given`: a kubectl takes a tenth of a second of a processor, a request next to
nothing. Paths are those of `kubeapi.paths`.
"""

import json
from typing import Any

import httpx

from holdfast.kubeapi import paths
from holdfast.lab.kubernetes.kubectl import KubectlFailed

Object = dict[str, Any]

APPLY = "?fieldManager=kubectl&force=true&fieldValidation=Strict"
TOKEN_S = 4 * 3600
"""How long a token of a service account is good that we ask for."""


class Admin:
    """`_http` reaches the API server as its admin. What it refuses raises `KubectlFailed`, with
    what it says.
    """

    _http: httpx.Client

    def apply(self, path: str, document: Object) -> Object:
        """Have the object at its path as the document says, as `kubectl apply --server-side`."""
        return self._asked("PATCH", path + APPLY, document, "application/apply-patch+yaml")

    def patch(self, path: str, change: Object) -> Object:
        """As `kubectl patch --type=merge`."""
        return self._asked("PATCH", path, change, "application/merge-patch+json")

    def delete(self, path: str, *, grace_s: int | None = None) -> None:
        """Have the object deleted, or all of a list, and wait for nothing; it may be gone."""
        grace = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        kind = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        self._asked("DELETE", path, {**kind, **grace}, may_lack=True)

    def make_namespace(self, name: str) -> None:
        self._asked("POST", paths.namespaces(), {"metadata": {"name": name}})

    def token(self, namespace: str, account: str) -> str:
        """As `kubectl create token` gives it."""
        at = paths.service_accounts(namespace, account, "token")
        made = self._asked("POST", at, {"spec": {"expirationSeconds": TOKEN_S}})
        return str(made["status"]["token"])

    def _asked(
        self,
        method: str,
        path: str,
        document: Object,
        written_as: str = "application/json",
        *,
        may_lack: bool = False,
    ) -> Object:
        headers = {"Content-Type": written_as}
        content = json.dumps(document, ensure_ascii=False).encode()  # YAML knows no escaped halves
        answer = self._http.request(method, path, content=content, headers=headers)
        if may_lack and answer.status_code == httpx.codes.NOT_FOUND:
            return {}
        if answer.is_error:
            raise KubectlFailed(answer.json()["message"])
        found: Object = answer.json()
        return found
