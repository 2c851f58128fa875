"""A gang's life, timed from outside: submitted, bound, running, deleted; and the same pods, bare.

Called by `turns`, each part within an event loop of its own.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.bench.kubernetes import fleet, job
from holdfast.bench.kubernetes.seen import following, pods_of
from holdfast.driver.adapters.kubernetes import names, pods, podspec
from holdfast.driver.adapters.kubernetes.gang import NO_GATE
from holdfast.driver.core.state.model import Phase
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client, Patch

Object = dict[str, Any]

WITHIN_S = 300.0
UIDS = "00000000-0000-0000-0000-000000000000"


class Began(NamedTuple):
    """Seconds since the job was submitted."""

    bound_s: float
    running_s: float


async def bare_s(kubeconfig: Path, count: int, *, gated: bool = False) -> float:
    """Seconds from the first create of the gang's pods, without a job, until all are bound.

    `gated`: none is placed before all are there, by a gate of each that is then taken off.
    """
    made = job.gang(count)
    made["metadata"]["uid"] = UIDS
    wanted = [fleet.bare_pod(made, fleet.node_name(slot), slot) for slot in range(count)]
    for pod in wanted if gated else ():
        pod["spec"] |= podspec.GATED
    where = paths.pods(fleet.NAMESPACE)
    async with (
        fleet.client_of(kubeconfig) as client,
        pods_of(client, fleet.selecting(fleet.BARE)) as seen,
    ):
        await seen.until(lambda: True, "pods are listed", WITHIN_S)
        began_s = time.monotonic()
        await fleet.for_each(wanted, lambda pod: client.create(where, pod))
        if gated:
            await fleet.for_each(names_of(wanted), lambda name: _opened(client, name))
        bound_s = await seen.until(lambda: seen.count == count, "bare pods are bound", WITHIN_S)
        await fleet.delete_pods(client, names_of(wanted))
        await seen.until(lambda: not seen.objects, "bare pods are gone", WITHIN_S)
    return bound_s - began_s


def names_of(objects: list[Object]) -> list[str]:
    return [each["metadata"]["name"] for each in objects]


async def _opened(client: Client, name: str) -> None:
    await client.patch(paths.pods(fleet.NAMESPACE, name), NO_GATE, Patch.STRATEGIC)


async def begun(kubeconfig: Path, wanted: Object, when_bound: Callable[[], None]) -> Began:
    """Submit, and wait until the job runs; `when_bound` is called once all its pods are bound."""
    name, count = wanted["metadata"]["name"], wanted["spec"]["nodes"]
    where = paths.training_jobs(fleet.NAMESPACE)
    async with (
        fleet.client_of(kubeconfig) as client,
        pods_of(client, f"{names.JOB}={name}") as seen,
        following(client, where, lambda told: _runs(told, name)) as jobs,
    ):
        await seen.until(lambda: True, "pods are listed", WITHIN_S)
        began_s = time.monotonic()
        await client.create(where, wanted)
        bound_s = await seen.until(lambda: seen.count == count, f"{name} is bound", WITHIN_S)
        when_bound()
        running_s = await jobs.until(lambda: jobs.count == 1, f"{name} runs", WITHIN_S)
    return Began(bound_s - began_s, running_s - began_s)


async def bound(kubeconfig: Path, wanted: Object) -> tuple[list[str], float]:
    """Submit, and wait until its pods are bound: their nodes, and the seconds that it took."""
    name, count = wanted["metadata"]["name"], wanted["spec"]["nodes"]
    async with (
        fleet.client_of(kubeconfig) as client,
        pods_of(client, f"{names.JOB}={name}") as seen,
    ):
        await seen.until(lambda: True, "pods are listed", WITHIN_S)
        began_s = time.monotonic()
        await client.create(paths.training_jobs(fleet.NAMESPACE), wanted)
        bound_s = await seen.until(lambda: seen.count == count, f"{name} is bound", WITHIN_S)
        return [pods.node_of(pod) for pod in seen.objects.values()], bound_s - began_s


async def account(client: Client, namespace: str) -> None:
    """Wait until pods may be made in a new namespace: it has the account that they are given."""
    async with following(client, paths.service_accounts(namespace), lambda _: True) as seen:
        await seen.until(lambda: seen.count > 0, f"{namespace} has its account", WITHIN_S)


async def restarts(kubeconfig: Path, name: str) -> int:
    """Of a job that is expected to run still."""
    async with fleet.client_of(kubeconfig) as client:
        found = await client.get(paths.training_jobs(fleet.NAMESPACE, name))
    assert found["status"]["phase"] == Phase.RUNNING, found["status"]
    return int(found["status"]["restarts"])


async def deleted_s(kubeconfig: Path, name: str) -> float:
    """Seconds until no pod of the job is left."""
    async with (
        fleet.client_of(kubeconfig) as client,
        pods_of(client, f"{names.JOB}={name}") as seen,
    ):
        began_s = time.monotonic()
        await client.delete(paths.training_jobs(fleet.NAMESPACE, name))
        return await seen.until(lambda: not seen.objects, "pods are gone", WITHIN_S) - began_s


def _runs(told: Object, name: str) -> bool:
    phase = told.get("status", {}).get("phase")
    return bool(phase == Phase.RUNNING and told["metadata"]["name"] == name)
