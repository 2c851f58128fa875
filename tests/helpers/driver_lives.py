"""Drivers that live on a real API server, each without one right of the shipped roles.

Used by tests of what those rights are for. Each has an account, a namespace, nodes, a Lease and a
database of its own.
"""

import asyncio
import re
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from made_nodes import MadeNodes
from one_life import LOOK_S, NEEDED_FOR, SEES, Life, prepare, until
from postgres import Postgres
from shipped_rights import Audit, grant, granted, reviews, revoke
from unchecked_driver import UncheckedDriver, UncheckedDrivers

from holdfast.driver.adapters.kubernetes import rights
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client, Limits
from holdfast.lab.kubernetes.plane import ControlPlane

AT_ONCE = 4
"""Drivers that live at a time: two cores have no more to give."""


class Lived(NamedTuple):
    """What became of a driver: what came about, what it was let do and not let do, and its log."""

    came: tuple[str, ...]
    used: set[str]
    refused: set[str]
    log: str


class Lives:
    """Where drivers live."""

    def __init__(
        self, plane: ControlPlane, postgres: Postgres, drivers: UncheckedDrivers, folder: Path
    ) -> None:
        self._plane = plane
        self._drivers = drivers
        self._postgres = postgres
        self._folder = folder
        self._audit = Audit(plane.audit_log)
        self._room = asyncio.Semaphore(AT_ONCE)
        self._passwords = folder / "passwords"
        self._passwords.write_text(f"127.0.0.1:*:*:*:{postgres.password}\n")
        self._passwords.chmod(0o600)

    async def all(self) -> dict[str, Lived]:
        """What became of the driver that lacks each right, and of one that lacks none ("")."""
        lacking = ["", *granted()]
        limits = Limits(calls_per_s=10_000.0, burst=10_000)
        config, agent = self._plane.admin, "tests"
        async with Client.from_kubeconfig(config, user_agent=agent, limits=limits) as admin:
            lived = await asyncio.gather(*(self._one(admin, each) for each in lacking))
        return dict(zip(lacking, lived, strict=True))

    async def _one(self, admin: Client, lacking: str) -> Lived:
        name = f"without-{re.sub('[ /]', '-', lacking or 'nothing')}"
        async with self._room, _home(admin, name, lacking), _nodes(admin, name):
            config = await asyncio.to_thread(self._plane.as_account, name, name)
            await _in_force(config, name, lacking)
            await prepare(admin, name)
            driver = self._spawn(name, config)
            life = Life(admin, driver, name)
            try:
                failed = await self._watched(life, name, lacking)
            finally:
                driver.kill()
        used, refused = self._audit.used(name), self._audit.refused(name)
        return Lived(tuple(life.came), used, refused, f"{driver.log.read_text()}\n{failed}")

    async def _watched(self, life: Life, name: str, lacking: str) -> str:
        """Let it live until a right was refused that it lacks, or all has come about. Why that did
        not, where it failed.
        """
        living = asyncio.create_task(life.live())
        try:
            while not (living.done() or self._shows(life, name, lacking)):
                await asyncio.wait([living], timeout=LOOK_S)
        finally:
            living.cancel()
            await asyncio.wait([living])
        failed = None if living.cancelled() else living.exception()
        return "".join(traceback.format_exception(failed)) if failed else ""

    def _shows(self, life: Life, name: str, lacking: str) -> bool:
        """Whether it was refused what it lacks; where it then cannot see something, whether it says
        so.
        """
        refused = lacking in self._audit.refused(name)
        return refused and (NEEDED_FOR[lacking] != SEES or life.blind())

    def _spawn(self, name: str, config: Path) -> UncheckedDriver:
        database = self._postgres.new_database()
        words = ["--cluster", "kubernetes", "--kubeconfig", str(config), "--namespace", name]
        words += ["--node-selector", f"made={name}", "--journal", self._postgres.url(database)]
        words += ["--standby", "--lease", f"{name}/{name}"]
        state, passwords = self._folder / name, str(self._passwords)
        return self._drivers.spawn(state, *words, PGPASSFILE=passwords)


@asynccontextmanager
async def _home(admin: Client, name: str, lacking: str) -> AsyncIterator[None]:
    """A namespace, and the account in it."""
    await admin.create(paths.namespaces(), {"metadata": {"name": name}})
    try:
        await _pods_may_be(admin, name)
        await grant(admin, name, lacking=lacking)
        yield
    finally:
        await admin.delete(paths.pods(name), grace_s=0)  # no kubelet would let them go
        await admin.delete(paths.namespaces(name))
        await revoke(admin, name)


@asynccontextmanager
async def _nodes(admin: Client, name: str) -> AsyncIterator[None]:
    nodes = MadeNodes(admin, f"{name}-1", f"{name}-2", mark=name)
    await nodes.make()
    keeping = asyncio.create_task(nodes.keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        await nodes.remove()


async def _in_force(config: Path, name: str, lacking: str) -> None:
    """Once the API server goes by the account's roles."""
    asked, less = reviews(name), 1 if lacking else 0
    async with Client.from_kubeconfig(config, user_agent="tests") as account:

        async def known() -> bool:
            return len(await rights.missing(account, asked)) == less

        await until(known, "the roles are in force")


async def _pods_may_be(admin: Client, namespace: str) -> None:
    """Once the namespace has the account that pods have by default."""

    async def there() -> bool:
        found = await admin.get(paths.service_accounts(namespace))
        return "default" in [each["metadata"]["name"] for each in found["items"]]

    await until(there, "pods may be made")
