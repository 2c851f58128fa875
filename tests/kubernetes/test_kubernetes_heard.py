"""Which pod is listened to as a node, with tokens that a real API server made."""

import asyncio
from typing import Any

import pytest
from cluster_trial import NODES, Trial, spec_of
from waiting import DEADLINE_S, LOOK_S

from holdfast.driver.adapters.kubernetes import identity, names, pods
from holdfast.driver.adapters.kubernetes.cluster import KubernetesCluster
from holdfast.driver.ports import TemporaryError
from holdfast.kit.clock import SystemClock
from holdfast.kubeapi import paths
from holdfast.kubeapi.errors import Unreachable

pytestmark = pytest.mark.kubernetes


async def test_a_pod_that_is_being_deleted_is_heard_while_nothing_has_its_place(
    trial: Trial,
) -> None:
    async with trial.cluster() as cluster:
        replaced: list[str] = []
        cluster.when_replaced(lambda node, uid: replaced.append(uid))
        await cluster.allocate("one", NODES[0])
        (before,) = (await trial.pods()).values()
        uid = before["metadata"]["uid"]
        await cluster.release(NODES[0])
        async with asyncio.timeout(DEADLINE_S):
            while not (pod := cluster.book.get(uid)) or not pods.ending(pod):
                await asyncio.sleep(LOOK_S)
        assert cluster.hears(pod)
        await cluster.allocate("other", NODES[0])
        assert not cluster.hears(pod)
        (after,) = (await trial.pods()).values()
        assert replaced == [uid, after["metadata"]["uid"]]
        await cluster.release(NODES[0])


async def test_a_node_that_a_job_gets_is_nobodys_until_its_pod_is_known_and_then_its_alone(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged = await forge(trial, NODES[0])
    create, asked, may = trial.client.create, asyncio.Event(), asyncio.Event()

    async def later(path: str, body: dict[str, Any], **query: object) -> dict[str, Any]:
        made = await create(path, body, **query)
        asked.set()
        await may.wait()
        return made

    async with trial.cluster() as cluster, asyncio.timeout(DEADLINE_S):
        who = identity_of(trial, cluster)
        await cluster.listed()
        assert await who.refusal(NODES[0], forged) == ""  # nobody has the node
        with monkeypatch.context() as patched:
            patched.setattr(trial.client, "create", later)
            allocating = asyncio.create_task(cluster.allocate("one", NODES[0]))
            await asked.wait()
        not_its_own = f"is not the one that has node {NODES[0]}"
        assert not_its_own in await who.refusal(NODES[0], forged)
        may.set()
        await allocating
        assert await who.refusal(NODES[0], await token_of(trial, "one-0-1")) == ""
        assert not_its_own in await who.refusal(NODES[0], forged)
        await cluster.release(NODES[0])


async def test_a_node_that_the_journal_gives_to_somebody_is_nobodys_before_it_is_asked_for(
    trial: Trial,
) -> None:
    forged = await forge(trial, NODES[0])
    async with trial.cluster() as cluster, asyncio.timeout(DEADLINE_S):
        who = identity_of(trial, cluster)
        dropped: list[str] = []
        cluster.when_replaced(who.when_gone(lambda node, why: dropped.append(node)))
        await cluster.listed()
        assert await who.refusal(NODES[0], forged) == ""
        cluster.want([NODES[0]])
        assert dropped == [NODES[0]]
        assert "is not the one" in await who.refusal(NODES[0], forged)
        await cluster.requalify(NODES[0], number=7, job="one", spec=spec_of(trial))
        cluster.want([NODES[0]])
        tests = token_of(trial, f"holdfast-trial-{NODES[0]}-7")
        assert await who.refusal(NODES[0], await tests) == ""
        assert "is not the one" in await who.refusal(NODES[0], forged)
        assert dropped == [NODES[0]]
        cluster.want([])
        await cluster.release(NODES[0])


async def test_a_token_that_the_api_server_vouched_for_is_good_while_that_is_away(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "REVIEWED_S", 0.0)
    asked: list[str] = []

    async def away(path: str, question: dict[str, Any]) -> dict[str, Any]:
        asked.append(path)
        raise Unreachable("POST: no answer in time")

    async with trial.cluster() as cluster, asyncio.timeout(DEADLINE_S):
        who = identity_of(trial, cluster)
        await cluster.allocate("one", NODES[0])
        token, unseen = [await token_of(trial, "one-0-1") for _ in range(2)]
        assert await who.refusal(NODES[0], token) == ""
        monkeypatch.setattr(trial.client, "ask", away)
        while not asked:
            assert await who.refusal(NODES[0], token) == ""
        with pytest.raises(TemporaryError, match="does not say whose token it is"):
            await who.refusal(NODES[0], unseen)
        await cluster.release(NODES[0])


def identity_of(trial: Trial, cluster: KubernetesCluster) -> identity.PodIdentity:
    return identity.PodIdentity(
        trial.client,
        cluster.book,
        hears=cluster.hears,
        listed=cluster.listed,
        clock=SystemClock(),
    )


async def forge(trial: Trial, node: str) -> str:
    """The token of a pod of job "other" that its owner put on a node which that job does not have,
    once the pod is there.
    """
    job = await trial.client.get(paths.training_jobs(trial.namespace, "other"))
    owner = {key: job["metadata"][key] for key in ("name", "uid")} | {"controller": True}
    owner |= {"apiVersion": names.API_VERSION, "kind": names.KIND}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "forged",
            "labels": {"app.kubernetes.io/managed-by": names.MANAGER},
            "annotations": {names.NODE: node},
            "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "c", "image": "x"}], "nodeName": node},
    }
    await trial.client.create(paths.pods(trial.namespace), pod)
    return await token_of(trial, "forged")


async def token_of(trial: Trial, pod: str) -> str:
    """As the pod's node mounts it."""
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod}
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [names.AUDIENCE], "boundObjectRef": bound},
    }
    at = paths.service_accounts(trial.namespace, "default", "token")
    return str((await trial.client.create(at, body))["status"]["token"])
