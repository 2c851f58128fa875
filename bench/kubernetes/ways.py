"""How the benchmark's driver is run: alone with a file as its journal, or as it is shipped.

Chosen by `benchmark`; `operator` asks what to start it with, and for its journal.
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import NamedTuple, Self

import psycopg

from holdfast.driver.adapters.journal import SqlJournal
from holdfast.driver.adapters.journal_postgres import open_postgres
from holdfast.driver.adapters.journal_sqlite import read_only
from holdfast.lab import postgres
from holdfast.lab.emulator.nodes import DRIVER_URL, SWITCH_ADDRESS
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.lab.kubernetes.ports import free_ports
from holdfast.lab.on_kubernetes import LEASE_RIGHTS, SHIPPED
from holdfast.lab.operators import LEASE
from holdfast.protocol.paths import RunPaths

PORT = 7481
"""Of the emulated nodes' switch; behind it is the driver that speaks TLS."""


class Start(NamedTuple):
    """What a driver is started with besides; without `environment` it has ours."""

    words: list[str]
    environment: Mapping[str, str] | None = None


class Plain:
    """SQLite, no TLS, and nobody to share with."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass

    def install(self, plane: ControlPlane) -> None:
        """The rights that only this way needs."""

    def reached(self, state: RunPaths) -> list[str]:
        """What emulated nodes are told, that they reach the driver with this state."""
        return ["--driver-socket", str(state.socket)]

    def start(self) -> Start:
        """Of a driver whose journal is new."""
        return Start(["--driver-urls", DRIVER_URL])

    def journal(self, state: RunPaths) -> SqlJournal:
        """Of the driver with this state, to be read, and closed."""
        return read_only(state.journal)[0]


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
        return [*super().reached(state), "--way", f"{PORT}=127.0.0.1:{self._port}"]

    def start(self) -> Start:
        self._databases += 1
        with psycopg.connect(self._server.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self._database}".encode())
        url = self._server.url(self._database, port=self._server.port)
        words = ["--journal", url, "--standby", "--lease", "/".join(LEASE), "--tls"]
        words += ["--driver-urls", f"https://{SWITCH_ADDRESS}:{PORT}"]
        words += ["--listen", f"127.0.0.1:{self._port}"]
        more = {"PGPASSWORD": self._server.password, "MALLOC_ARENA_MAX": "2"}
        return Start(words, os.environ | more)

    def journal(self, state: RunPaths) -> SqlJournal:
        return open_postgres(self._server.url(self._database))

    @property
    def _database(self) -> str:
        return f"bench_{self._databases}"
