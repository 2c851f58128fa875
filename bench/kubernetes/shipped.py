"""The benchmark's driver as it is shipped. Needs the extras `postgres` and `tls`.

Loaded by `benchmark` where a person asks for it.
"""

import os
from contextlib import ExitStack
from typing import Self

import psycopg

from holdfast.bench.kubernetes.ways import Plain, Start
from holdfast.lab import postgres
from holdfast.lab.emulator.nodes import SWITCH_ADDRESS
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.lab.kubernetes.ports import free_ports
from holdfast.lab.on_kubernetes import LEASE_RIGHTS, SHIPPED
from holdfast.lab.operators import LEASE, SECOND_PORT
from holdfast.protocol.paths import RunPaths


class AsShipped(Plain):
    """A PostgreSQL over TCP, TLS of the drivers' own CA, and the Lease: words and environment are
    those of `deploy/kubernetes/base/driver.yaml`. There is no second driver, and no network.
    """

    def __init__(self) -> None:
        self._databases = 0
        self._port = free_ports(1)[0]

    def __enter__(self) -> Self:
        """Raises `postgres.NotInstalled`, `postgres.Failed`."""
        with ExitStack() as up:
            self._server = up.enter_context(postgres.running_postgres())
            self._up = up.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._up.close()

    def install(self, plane: ControlPlane) -> None:
        plane.kubectl("apply", "-f", str(SHIPPED / LEASE_RIGHTS))

    def reached(self, state: RunPaths) -> list[str]:
        """TLS is for TCP alone."""
        return [*super().reached(state), "--way", f"{SECOND_PORT}=127.0.0.1:{self._port}"]

    def start(self) -> Start:
        self._databases += 1
        database = f"bench_{self._databases}"
        with psycopg.connect(self._server.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {database}".encode())
        url = self._server.url(database, port=self._server.port)
        words = ["--journal", url, "--standby", "--lease", "/".join(LEASE), "--tls"]
        words += ["--driver-urls", f"https://{SWITCH_ADDRESS}:{SECOND_PORT}"]
        words += ["--listen", f"127.0.0.1:{self._port}"]
        more = {"PGPASSWORD": self._server.password, "MALLOC_ARENA_MAX": "2"}
        return Start(words, self._server.url(database), os.environ | more)
