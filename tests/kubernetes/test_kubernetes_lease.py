"""The Lease that says who tries to lead, on a real API server and with exactly the shipped role."""

import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually

from holdfast.driver.adapters.kubernetes.lease import LEASE_S, LeaseLead, lease
from holdfast.driver.ports import TemporaryError
from holdfast.driver.settings import Settings
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.lab.kubernetes.plane import ControlPlane, KubectlFailed
from holdfast.protocol.version import FIELD_MANAGER

pytestmark = pytest.mark.kubernetes

BASE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "base"
LEASE = "holdfast/holdfast-driver"
DRIVER = "system:serviceaccount:holdfast:holdfast-driver"
AT = paths.leases("holdfast", "holdfast-driver")

MakeLead = Callable[..., LeaseLead]


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall(self) -> datetime:
        return datetime.fromtimestamp(self.now_s, UTC)


@pytest.fixture(scope="module")
def installed(plane: ControlPlane) -> ControlPlane:
    """The namespace and the role; once the role counts."""
    for manifest in ("namespace.yaml", "lease.yaml"):
        plane.kubectl("apply", "-f", str(BASE / manifest))
    words = ("auth", "can-i", "get", "lease/holdfast-driver", "-n", "holdfast", "--as", DRIVER)

    def counts() -> bool:
        try:
            return plane.kubectl(*words).strip() == "yes"
        except KubectlFailed:
            return False

    eventually(counts, "the role counts")
    return plane


@pytest.fixture
async def client(installed: ControlPlane) -> AsyncIterator[Client]:
    """With the shipped rights. The Lease is gone afterwards."""
    config = installed.kubeconfig(DRIVER, ["system:serviceaccounts"], name="lease")
    async with Client.from_kubeconfig(config, user_agent="test") as made:
        yield made
    installed.kubectl("-n", "holdfast", "delete", "lease", "holdfast-driver", "--ignore-not-found")


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def lead(client: Client, clock: Hand) -> MakeLead:
    def make(name: str, lease: str = "holdfast-driver") -> LeaseLead:
        return LeaseLead(client, namespace="holdfast", lease=lease, name=name, clock=clock)

    return make


async def holder(client: Client) -> dict[str, Any]:
    spec: dict[str, Any] = (await client.get(AT))["spec"]
    return spec


async def test_one_has_it_and_the_others_are_told_who_until_that_one_is_silent(
    lead: MakeLead, client: Client, clock: Hand
) -> None:
    one, two = lead("driver-a"), lead("driver-b")
    assert await one.seek() == ""
    assert await two.seek() == "driver-a"
    for _ in range(3):
        clock.now_s += LEASE_S * 0.9
        assert await one.seek() == ""
        assert await two.seek() == "driver-a", "it is renewed"
    clock.now_s += LEASE_S * 1.1
    assert await two.seek() == ""
    assert await one.seek() == "driver-b", "who wakes takes nothing back"
    spec = await holder(client)
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("driver-b", 2)


async def test_an_old_lease_is_not_believed_to_be_over_before_it_was_watched(
    lead: MakeLead, clock: Hand
) -> None:
    """Its times are of another machine's clock."""
    await lead("driver-a").seek()
    clock.now_s += 100 * LEASE_S
    late = lead("driver-b")
    assert await late.seek() == "driver-a"
    clock.now_s += LEASE_S * 1.1
    assert await late.seek() == ""


async def test_who_ends_in_order_gives_it_up_at_once(lead: MakeLead) -> None:
    one, two = lead("driver-a"), lead("driver-b")
    await one.seek()
    await two.close()
    assert await two.seek() == "driver-a", "it was not the other's to give up"
    await one.close()
    assert await two.seek() == ""


async def test_deleted_it_is_made_again_and_stolen_it_is_taken_back_once_the_thief_is_silent(
    lead: MakeLead, installed: ControlPlane, client: Client, clock: Hand
) -> None:
    one = lead("driver-a")
    await one.seek()
    installed.kubectl("-n", "holdfast", "delete", "lease", "holdfast-driver")
    assert await one.seek() == ""
    stolen = json.dumps({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 1_000_000}})
    installed.kubectl(
        "-n", "holdfast", "patch", "lease", "holdfast-driver", "--type=merge", "-p", stolen
    )
    assert await one.seek() == "thief"
    clock.now_s += LEASE_S * 1.1
    assert await one.seek() == ""
    assert (await holder(client))["holderIdentity"] == "driver-a"


async def test_its_fields_have_the_manager_that_all_others_have(
    installed: ControlPlane, client: Client, tmp_path: Path
) -> None:
    config = installed.kubeconfig(DRIVER, ["system:serviceaccounts"], name="lease")
    words = {"cluster": "kubernetes", "journal": "postgresql://holdfast@database/holdfast"}
    settings = Settings(state=tmp_path, kubeconfig=config, standby=True, lease=LEASE, **words)
    async with lease(settings, name="driver-a") as made:
        await made.seek()
    managed = (await client.get(AT))["metadata"]["managedFields"]
    assert {each["manager"] for each in managed} == {FIELD_MANAGER}


async def test_a_lease_of_another_name_may_not_be_touched_and_that_is_said(lead: MakeLead) -> None:
    with pytest.raises(TemporaryError, match=r"Lease holdfast/other cannot be had.*forbidden"):
        await lead("driver-a", "other").seek()
