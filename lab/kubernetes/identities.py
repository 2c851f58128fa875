"""Who may talk to a control plane: its own authority, certificates of users, and their kubeconfigs.

Called by `plane`. A certificate carries user and groups, so that a new identity needs no restart of
the API server, and nobody borrows another's.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from holdfast.kit.files import private_folder
from holdfast.lab.kubernetes import kubeconfigs
from holdfast.lab.kubernetes.programs import command


class Identities:
    """The folder with `ca.crt`, and for each name NAME.crt, NAME.key and NAME.yaml."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        private_folder(folder)

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    def server(self, name: str, hosts: Sequence[str]) -> None:
        """A certificate for whoever answers at `hosts` (addresses, DNS names)."""
        self._sign(name, "-user", name, "-hosts", ",".join(hosts))

    def kubeconfig(self, name: str, *, user: str, groups: Sequence[str], url: str) -> Path:
        """A file with which kubectl, or a client, is `user` in `groups`."""
        self._sign(name, "-user", user, "-groups", ",".join(groups))
        who = {
            "client-certificate": str(self.folder / f"{name}.crt"),
            "client-key": str(self.folder / f"{name}.key"),
        }
        return self._write(name, user, who, url)

    def with_token(self, name: str, token: str, *, url: str) -> Path:
        """A file for whoever the API server gave this token to."""
        return self._write(name, name, {"token": token}, url)

    def _write(self, name: str, user: str, who: dict[str, str], url: str) -> Path:
        cluster = {"server": url, "certificate-authority": str(self.ca)}
        path = self.folder / f"{name}.yaml"
        return kubeconfigs.write(path, cluster=cluster, user=user, who=who)

    def _sign(self, name: str, *arguments: str) -> None:
        subprocess.run(
            [*command("certificate"), "-folder", str(self.folder), "-name", name, *arguments],
            check=True,
            capture_output=True,
        )
