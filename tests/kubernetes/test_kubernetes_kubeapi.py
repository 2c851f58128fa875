"""The client layer with a real API server: stopped, restarted, compacted, and behind a bad network.

What the fake server claims about real ones is held here against one.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from cuttable import Cuttable, cuttable
from structlog.testing import capture_logs
from told import Told, told_by
from waiting import eventually_async

from holdfast.kubeapi import errors, paths
from holdfast.kubeapi.client import Client, Patch
from holdfast.kubeapi.mirror import key_of
from holdfast.kubeapi.reflector import Reflector
from holdfast.lab.kubernetes.plane import ControlPlane

pytestmark = pytest.mark.kubernetes
STOPPED_S = float(os.environ.get("HOLDFAST_TEST_STOPPED_S", "3"))
"""How long the API server is away; half a minute is worth trying too."""


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.from_kubeconfig(plane.admin, user_agent="holdfast/test") as entered:
        yield entered


@pytest.fixture
async def at(client: Client) -> AsyncIterator[str]:
    """The path of a collection of our own: leases, in which no controller has a hand."""
    name = f"client-{uuid4().hex[:8]}"
    await client.create(paths.namespaces(), {"metadata": {"name": name}})
    yield paths.leases(name)
    await client.delete(paths.namespaces(name))


@pytest.fixture
def running(plane: ControlPlane) -> Iterator[ControlPlane]:
    """Whatever a test does to the API server, the next test finds it running."""
    before = len(plane.starts)
    yield plane
    if not plane.runs("kube-apiserver"):
        plane.start("kube-apiserver")
    if len(plane.starts) > before:
        plane.renew()


@asynccontextmanager
async def through_a_relay(
    plane: ControlPlane, folder: Path
) -> AsyncIterator[tuple[Client, Cuttable]]:
    """A client of the real server over a network that can be cut."""
    address = urlsplit(plane.url)
    async with cuttable(address.hostname or "", address.port or 443) as relay:
        path = folder / "kubeconfig"
        there = plane.admin.read_text()
        path.write_text(there.replace(address.netloc, f"127.0.0.1:{relay.at_port}"))
        async with Client.from_kubeconfig(path, user_agent="holdfast/test") as client:
            yield client, relay


async def make(client: Client, at: str, name: str) -> dict[str, Any]:
    return await client.create(at, {"metadata": {"name": name}})


async def cut_off(reflector: Reflector, relay: Cuttable) -> None:
    """Drop connections until another watch has begun: one that is being opened is not dropped."""
    seen = reflector.watches

    def again() -> bool:
        relay.drop()
        return reflector.watches > seen

    await eventually_async(again, f"watch {seen} is lost")


async def same(client: Client, at: str, told: Told) -> None:
    """Wait until what was told is what the server has."""
    items = (await client.get(at))["items"]
    there = {key_of(item): item["metadata"]["resourceVersion"] for item in items}
    await eventually_async(
        lambda: (
            there == {key: each["metadata"]["resourceVersion"] for key, each in told.live.items()}
        ),
        f"told {sorted(told.live)}, there {sorted(there)}",
    )


async def test_every_refusal_of_a_real_server_has_its_class(client: Client, at: str) -> None:
    made = await make(client, at, "a")
    uid, stale = made["metadata"]["uid"], {**made["metadata"], "resourceVersion": "1"}
    for call, error in [
        (make(client, at, "a"), errors.AlreadyExists),
        (client.get(f"{at}/nobody"), errors.NotFound),
        (make(client, at, "Not_A_Name"), errors.Invalid),
        (client.replace(f"{at}/a", {**made, "metadata": stale}), errors.Conflict),
        (client.delete(f"{at}/a", uid=str(uuid4())), errors.Conflict),
        (client.get(at, resourceVersion="9" * 18), errors.Gone),
        (client.create(at, {"metadata": {"name": 7}}), errors.Refused),
    ]:
        with pytest.raises(error):
            await call
    await client.delete(f"{at}/a", uid=uid)


async def test_each_kind_of_patch_is_taken(client: Client, at: str) -> None:
    await make(client, at, "a")
    label = {"metadata": {"labels": {"x": "1"}}}
    assert (await client.patch(f"{at}/a", label))["metadata"]["labels"] == {"x": "1"}
    add = {"op": "replace", "path": "/metadata/labels/x", "value": "2"}
    assert (await client.patch(f"{at}/a", [add], Patch.JSON))["metadata"]["labels"]["x"] == "2"
    await client.patch(f"{at}/a", label, Patch.STRATEGIC)
    applied = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **label}
    await client.patch(f"{at}/a", applied, Patch.APPLY, fieldManager="test", force=True)


async def test_a_caller_is_who_their_token_says_and_not_we_who_have_a_certificate(
    client: Client, at: str
) -> None:
    async with client.on_behalf_of("x") as who:
        with pytest.raises(errors.Unauthorized):
            await who.get(at)


async def test_somebody_without_rights_is_told_so(plane: ControlPlane, at: str) -> None:
    path = plane.kubeconfig("nobody-special", name=f"nobody-{uuid4().hex[:8]}")
    async with Client.from_kubeconfig(path, user_agent="holdfast/test") as client:
        with pytest.raises(errors.Forbidden, match="nobody-special"):
            await client.get(at)


async def test_a_large_list_is_read_in_pages_of_one_moment(client: Client, at: str) -> None:
    await asyncio.gather(*(make(client, at, f"lease-{number}") for number in range(120)))
    versions, seen = set(), 0
    async for page in client.pages(at, limit=50):
        versions.add(page["metadata"]["resourceVersion"])
        seen += len(page["items"])
        await client.delete(f"{at}/lease-{seen - 1}")
        assert {item["kind"] for item in page["items"]} == {"Lease"}
    assert (len(versions), seen) == (1, 120)


async def test_a_server_that_is_stopped_and_started_again_is_gone_on_with(
    running: ControlPlane, client: Client, at: str
) -> None:
    reflector = Reflector(client, at)
    async with told_by(reflector) as told:
        await make(client, at, "a")
        await make(client, at, "b")
        await same(client, at, told)
        before = dict(reflector.store)
        await asyncio.to_thread(running.stop, "kube-apiserver")
        await eventually_async(reflector.away, "it says that nobody is there")
        await asyncio.sleep(STOPPED_S)
        assert reflector.store == before, "what is not known is not guessed"
        with pytest.raises(errors.Unreachable):
            await client.get(at)
        await asyncio.to_thread(running.start, "kube-apiserver")
        await client.delete(f"{at}/a")
        await make(client, at, "c")
        await same(client, at, told)
        await eventually_async(lambda: not reflector.away(), "it is heard again")


async def test_a_deletion_in_a_gap_that_the_server_has_forgotten_is_told(
    running: ControlPlane, client: Client, at: str, tmp_path: Path
) -> None:
    """Compacted and restarted: only both together make a real server answer 410."""
    async with through_a_relay(running, tmp_path) as (far, relay):
        reflector = Reflector(far, at)
        with capture_logs() as logs:
            async with told_by(reflector) as told:
                gone = (await make(client, at, "gone"))["metadata"]["uid"]
                replaced = (await make(client, at, "replaced"))["metadata"]["uid"]
                await make(client, at, "stays")
                await same(client, at, told)
                await relay.cut()
                await client.delete(f"{at}/gone")
                await client.delete(f"{at}/replaced")
                await make(client, at, "replaced")
                await asyncio.to_thread(running.compact)
                await asyncio.to_thread(running.stop, "kube-apiserver")
                await asyncio.to_thread(running.start, "kube-apiserver")
                await relay.mend()
                await same(client, at, told)
                assert told.ended == {gone, replaced}
                assert reflector.lists > 1, "not all that it had is there"
        assert any("too old resource version" in line.get("why", "") for line in logs), logs


async def test_a_storm_of_changes_over_a_network_that_drops_is_followed(
    plane: ControlPlane, client: Client, at: str, tmp_path: Path
) -> None:
    chance, drops = random.Random(7), 0
    async with through_a_relay(plane, tmp_path) as (far, relay):
        reflector = Reflector(far, at, page=3, wait_cap_s=0.05)
        async with told_by(reflector) as told:
            for number in range(300):
                name = f"lease-{chance.randrange(10)}"
                label = {"metadata": {"labels": {"number": str(number)}}}
                try:
                    if chance.random() < 0.5:
                        await make(client, at, name)
                    elif chance.random() < 0.5:
                        await client.patch(f"{at}/{name}", label)
                    else:
                        await client.delete(f"{at}/{name}")
                except (errors.AlreadyExists, errors.NotFound):
                    continue
                if number % 10 == 0:
                    await cut_off(reflector, relay)
                    drops += 1
            await same(client, at, told)
            assert reflector.watches > drops > 10
