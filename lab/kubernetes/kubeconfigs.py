"""Kubeconfigs as files that only we can read. Written by `identities` and `given`."""

from collections.abc import Mapping
from pathlib import Path

import yaml


class Unusable(Exception):
    """A kubeconfig, or the cluster that it names, cannot be used; the message says why."""


def write(path: Path, *, cluster: Mapping[str, str], user: str, who: Mapping[str, str]) -> Path:
    """One with which kubectl, or a client, is `user` at `cluster`, as `who` shows; the path."""
    path.touch(mode=0o600)
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": dict(cluster)}],
        "users": [{"name": user, "user": dict(who)}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}],
        "current-context": "lab",
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path
