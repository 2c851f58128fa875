"""A driver that leads by a Lease, cut off: from the API server alone, from its database too; and
one that is stopped, and woken once another has led.

Real drivers on a real API server and a real PostgreSQL, each reached over a way that can be cut.
That ranks begin again, and nodes are replaced, while there is no API server is in
`test_kubernetes_ha`.
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from cuttable import Cuttable, cuttable
from made_nodes import MadeNodes
from postgres import Postgres, running_postgres
from running_driver import DriverProcess
from waiting import DEADLINE_S, eventually_async

from holdfast.driver.adapters.kubernetes import names
from holdfast.driver.adapters.sql.postgres import open_postgres
from holdfast.driver.core.events import BrakeApplyRequested, NodeAppeared
from holdfast.driver.lead.standby import STEP_DOWN_S
from holdfast.driver.ports import Entry
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.lab.kubernetes.plane import ControlPlane
from holdfast.protocol import exitcodes

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]

STARTS = 5


class Drivers:
    """One that leads, over `api` and `database`, which can be cut; and one that neither meets."""

    def __init__(
        self, leader: DriverProcess, other: DriverProcess, url: str, plane: ControlPlane, lease: str
    ) -> None:
        self.plane = plane
        self.lease = lease
        self.leader = leader
        self.other = other
        self._url = url
        self.api: Cuttable
        self.database: Cuttable

    def said(self) -> str:
        return self.leader.log.read_text()

    def holder(self) -> str:
        """The driver that has the Lease, by the API server's word."""
        lease = self.plane.read(paths.leases("default", self.lease))
        return str(lease["spec"]["holderIdentity"]).partition(" at ")[0]

    async def led(self) -> int:
        """The exit code of the leader, once it has ended by itself."""
        assert self.leader.process is not None
        return await asyncio.to_thread(self.leader.process.wait, DEADLINE_S)

    def entries(self) -> list[Entry]:
        journal = open_postgres(self._url)
        try:
            return journal.entries()
        finally:
            journal.close()

    async def brake(self, driver: DriverProcess, reason: str = "") -> dict[str, Any]:
        """Of this driver, by its own token; with a reason it is put on."""
        url = json.loads(driver.paths.address.read_text())["http"] + "/v1alpha1/brake"
        headers = {"Authorization": f"Bearer {driver.paths.user_token.read_text().strip()}"}
        async with httpx.AsyncClient(
            trust_env=False, verify=False, headers=headers, timeout=60
        ) as client:
            if reason:
                put_on = await client.post(f"{url}/apply", json={"reason": reason})
                assert put_on.status_code == 202, put_on.text
            found: dict[str, Any] = (await client.get(url)).json()
        return found

    async def of_node(self, driver: DriverProcess, node: str, what: str, reason: str) -> None:
        """Evict it or restore it, as a person would, by this driver's own token."""
        url = json.loads(driver.paths.address.read_text())["http"]
        headers = {"Authorization": f"Bearer {driver.paths.user_token.read_text().strip()}"}
        async with httpx.AsyncClient(
            trust_env=False, verify=False, headers=headers, timeout=60
        ) as client:
            at = f"{url}/v1alpha1/nodes/{node}/{what}"
            answer = await client.post(at, json={"reason": reason})
            assert answer.status_code == 202, answer.text


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture
async def drivers(crd: ControlPlane, postgres: Postgres, tmp_path: Path) -> AsyncIterator[Drivers]:
    """The one that leads has begun; the other has not."""
    name = postgres.new_database()
    lease = name.replace("_", "-")
    passwords = tmp_path / "passwords"
    passwords.write_text(f"127.0.0.1:*:*:*:{postgres.password}\n")
    passwords.chmod(0o600)

    def driver(state: str, config: Path, port: int) -> DriverProcess:
        words = ["--cluster", "kubernetes", "--namespace", "default"]
        words += ["--kubeconfig", str(config), "--node-selector", "made=cut-off"]
        words += ["--journal", postgres.url(name, port=port)]
        words += ["--standby", "--lease", f"default/{lease}", "--name", state]
        return DriverProcess(tmp_path / state, *words, PGPASSFILE=str(passwords))

    async with (
        cuttable("127.0.0.1", crd.at.api_port) as api,
        cuttable("127.0.0.1", postgres.port) as database,
    ):
        relayed = tmp_path / "relayed.yaml"
        text = crd.admin.read_text()
        relayed.write_text(text.replace(crd.url, f"https://127.0.0.1:{api.at_port}"))
        leader = driver("leader", relayed, database.at_port)
        other = driver("other", crd.admin, postgres.port)
        made = Drivers(leader, other, postgres.url(name), crd, lease)
        made.api, made.database = api, database
        await led_by(leader)
        yield made
        for each in (leader, made.other):
            if each.process is not None:
                each.end(signal.SIGKILL)
    crd.kubectl("delete", "lease", lease, "--ignore-not-found")


async def led_by(driver: DriverProcess) -> None:
    """Start it as a kubelet does: again where it ended because the machine kept it from its Lease
    and its journal for so long that another might lead.
    """
    for _ in range(STARTS):
        try:
            await driver.start()
            return
        except AssertionError as ended:
            if "another may lead since" not in str(ended):
                raise
    raise AssertionError(f"it ended {STARTS} times: {driver.log.read_text()}")


async def test_cut_off_from_the_api_server_it_goes_on_until_another_has_taken_the_term(
    drivers: Drivers,
) -> None:
    await drivers.api.cut()
    await eventually_async(lambda: "lead lost" in drivers.said(), "it renews no Lease")
    assert (await drivers.brake(drivers.leader, "decided alone"))["on"] is True
    assert drivers.holder() == "leader", "nobody else has asked for it"
    drivers.other.spawn()
    await eventually_async(drivers.other.paths.address.exists, "the other leads")
    assert drivers.holder() == "other"
    assert await drivers.led() == exitcodes.TRY_AGAIN
    assert "another driver has taken over with term 2, so this one, of term 1" in drivers.said()
    assert (await drivers.brake(drivers.other))["why"] == "a person: decided alone"
    terms = [each.term for each in drivers.entries()]
    assert terms == sorted(terms)
    (decided,) = (e for e in drivers.entries() if isinstance(e.event, BrakeApplyRequested))
    assert decided.term == 1


async def test_started_while_cut_off_from_its_database_it_leaves_the_lease_to_another(
    drivers: Drivers,
) -> None:
    """And leads in the same process once it has both."""
    await drivers.database.cut()
    assert await drivers.led() == exitcodes.TRY_AGAIN
    process = drivers.leader.spawn()

    def given_up() -> bool:
        assert process.poll() is None, drivers.said()
        return "driver waits: journal: the database is away" in drivers.said()

    await eventually_async(given_up, "it took the Lease and cannot open the journal")
    await eventually_async(lambda: drivers.holder() == "", "it gives the Lease up")
    await drivers.other.start()
    assert drivers.holder() == "other"
    await drivers.database.mend()
    await eventually_async(lambda: "driver goes on" in drivers.said(), "it reaches the journal")
    assert drivers.other.end() == exitcodes.OK
    await eventually_async(drivers.leader.paths.address.exists, "it leads")
    assert process.poll() is None
    assert drivers.holder() == "leader"


async def test_stopped_between_decision_and_call_and_woken_after_another_led_it_changes_nothing(
    drivers: Drivers, crd: ControlPlane
) -> None:
    since_bytes = crd.audit_log.stat().st_size
    async with made_node(crd) as node:
        await eventually_async(lambda: _knows(drivers.entries(), node), "the node is known")
        await drivers.api.cut()
        await drivers.of_node(drivers.leader, node, "evict", "to be repaired")
        assert drivers.leader.process is not None
        drivers.leader.process.send_signal(signal.SIGSTOP)
        drivers.other.spawn()
        await eventually_async(lambda: distrusted(crd, node), "who leads now marks it")
        await eventually_async(drivers.other.paths.address.exists, "it answers")
        await drivers.of_node(drivers.other, node, "restore", "repaired")
        await eventually_async(lambda: not distrusted(crd, node), "a person has it back")
        await drivers.api.mend()
        drivers.leader.process.send_signal(signal.SIGCONT)
        assert await drivers.led() == exitcodes.TRY_AGAIN
        assert not distrusted(crd, node)
    written = [event["userAgent"] for event in crd.audit(since_bytes) if event["verb"] == "patch"]
    marked = [agent for agent in written if "Distrust cut-off" in agent]
    assert marked
    assert all("(term=2 " in agent for agent in marked), marked


def distrusted(plane: ControlPlane, node: str) -> bool:
    taints = plane.read(paths.nodes(node))["spec"].get("taints", ())
    return names.TAINT in [each["key"] for each in taints]


def _knows(entries: list[Entry], node: str) -> bool:
    return any(isinstance(e.event, NodeAppeared) and e.event.node == node for e in entries)


@asynccontextmanager
async def made_node(plane: ControlPlane) -> AsyncIterator[str]:
    """The one node of these drivers."""
    async with Client.from_kubeconfig(plane.admin, user_agent="tests") as admin:
        nodes = MadeNodes(admin, "cut-off", mark="cut-off")
        await nodes.make()
        keeping = asyncio.create_task(nodes.keep())
        try:
            yield "cut-off"
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
            await nodes.remove()


async def test_cut_off_from_both_it_steps_down_and_another_leads(
    drivers: Drivers,
) -> None:
    drivers.other.spawn()
    await eventually_async(lambda: "stands by" in drivers.other.log.read_text())
    await asyncio.gather(drivers.api.cut(), drivers.database.cut())
    assert await drivers.led() == exitcodes.TRY_AGAIN
    since = f"this driver has stopped, for another may lead since {STEP_DOWN_S:.0f} s"
    assert since in drivers.said()
    assert "Traceback" not in drivers.said()
    await eventually_async(drivers.other.paths.address.exists, "the other leads")
    assert drivers.holder() == "other"
    assert sorted({each.term for each in drivers.entries()}) == [1, 2]
