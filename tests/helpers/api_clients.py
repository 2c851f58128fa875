"""Clients of an API server for tests: a kubeconfig as kubectl would have it, and a quick client."""

from pathlib import Path
from typing import Any

import yaml
from fake_apiserver import FakeApiServer

from holdfast.kubeapi.client import Client, Limits


def kubeconfig(folder: Path, url: str, **user: Any) -> Path:
    """A kubeconfig for `url` with the fields of `user` (token, tokenFile)."""
    path = folder / "kubeconfig"
    context = {"name": "test", "context": {"cluster": "test", "user": "test"}}
    said = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [context],
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "users": [{"name": "test", "user": user}],
    }
    path.write_text(yaml.safe_dump(said))
    return path


def client_of(server: FakeApiServer, folder: Path, **limits: Any) -> Client:
    """A client whose token is in a file, as in a pod: `folder/token`."""
    (folder / "token").write_text(server.token + "\n")
    path = kubeconfig(folder, server.url, tokenFile=str(folder / "token"))
    return Client.from_kubeconfig(path, user_agent="holdfast/test", limits=Limits(**limits))
