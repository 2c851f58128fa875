"""Kubernetes as a cluster, on a real API server: what it promises, and whom it leaves alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from cluster_contract import PROMISES, first_facts, of_trials
from cluster_trial import NODES, Trial, spec_of, training_job
from waiting import DEADLINE_S

from holdfast.driver.adapters.kubernetes import identity, names, pods
from holdfast.driver.adapters.kubernetes.cluster import KubernetesCluster
from holdfast.driver.ports import Ended, Fits, PermanentError, TemporaryError, UnfitError
from holdfast.kubeapi import paths

pytestmark = pytest.mark.kubernetes


async def test_kubernetes_keeps_what_every_cluster_promises(trial: Trial) -> None:
    async with trial.cluster() as cluster:
        for promise in PROMISES:
            await promise(cluster, NODES)
        await of_trials(cluster, NODES, trial.namespace)


async def test_a_pod_of_another_with_our_name_is_refused_and_left_alone(trial: Trial) -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one-0-1"},
        "spec": {"containers": [{"name": "c", "image": "x"}], "nodeName": NODES[1]},
    }
    before = await trial.client.create(paths.pods(trial.namespace), foreign)
    async with trial.cluster() as cluster:
        with pytest.raises(UnfitError, match=r"one-0-1.*not of this job"):
            await cluster.allocate("one", NODES[0])
        await cluster.release(NODES[0])
    after = (await trial.pods())["one-0-1"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "ownerReferences" not in after["metadata"]


async def test_a_driver_that_takes_over_adopts_pods_by_uid_and_tells_of_those_that_went(
    trial: Trial,
) -> None:
    async with trial.cluster() as cluster:
        await cluster.allocate("one", NODES[0])
        await cluster.allocate("other", NODES[1])
    before = await trial.pods()
    await trial.delete("other-0-1")
    held = {NODES[0]: "one", NODES[1]: "other"}
    async with trial.cluster(held) as cluster, asyncio.timeout(DEADLINE_S):
        ended = [each async for each in until_ended(cluster)][-1]
        assert ended == Ended(job="other", node=NODES[1], why="no pod of it is left")
        with pytest.raises(TemporaryError, match="held by one"):
            await cluster.allocate("other", NODES[0])
    after = await trial.pods()
    assert after["one-0-1"]["metadata"]["uid"] == before["one-0-1"]["metadata"]["uid"]
    assert list(after) == ["one-0-1"]


async def test_the_end_of_a_pod_that_nobody_released_is_told_once(trial: Trial) -> None:
    async with trial.cluster() as cluster, asyncio.timeout(DEADLINE_S):
        await cluster.allocate("one", NODES[0])
        telling = until_ended(cluster)
        assert await anext(telling)  # it listens from here on
        await trial.delete("one-0-1")
        ended = [each async for each in telling][-1]
        assert (ended.job, ended.node) == ("one", NODES[0])
        assert "one-0-1" in ended.why
        await cluster.allocate("one", NODES[0])
        await cluster.release(NODES[0])


async def full_of_others(trial: Trial, node: str, name: str) -> None:
    """A pod of somebody else takes six of the eight cpus of the node."""
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "6"}}}
    theirs = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "nodeName": node},
    }
    await trial.client.create(paths.pods(trial.namespace), theirs)


async def test_a_pod_that_a_node_has_no_room_for_is_taken_back_with_the_schedulers_reason(
    trial: Trial,
) -> None:
    """What is there ends, as the driver sees it, and does not, as the scheduler sees it."""
    wide = training_job("wide", resources={"requests": {"cpu": "4"}})
    await trial.client.create(paths.training_jobs(trial.namespace), wide)
    await full_of_others(trial, NODES[0], "stays")
    await trial.client.delete(paths.pods(trial.namespace, "stays"), grace_s=600)
    async with trial.cluster(placed_within_s=10.0) as cluster:  # of a scheduler that may be slow
        await first_facts(cluster, 2)
        with pytest.raises(UnfitError, match="Insufficient cpu") as refused:
            await cluster.allocate("wide", NODES[0])
        assert refused.value.late
        assert await trial.pods() == {}
    await trial.delete("stays")


async def test_a_node_that_others_filled_is_refused_without_a_pod_and_told_once_it_has_room(
    trial: Trial,
) -> None:
    wide = training_job("wide", resources={"requests": {"cpu": "4"}})
    await trial.client.create(paths.training_jobs(trial.namespace), wide)
    await full_of_others(trial, NODES[0], "theirs")
    async with trial.cluster() as cluster, asyncio.timeout(DEADLINE_S):
        async with aclosing(cluster.facts()) as told:
            await anext(told)  # it listens from here on
            with pytest.raises(UnfitError, match="of cpu 2 of 8 are free, and 4") as refused:
                await cluster.allocate("wide", NODES[0])
            assert list(refused.value.others) == [NODES[0]]
            assert list(await trial.pods()) == ["theirs"]
            await trial.delete("theirs")
            while await anext(told) != Fits(job="wide", node=NODES[0]):
                pass
        await cluster.release(NODES[0])


async def test_a_node_that_is_not_ready_is_gone_and_its_pods_are_removed_by_force(
    trial: Trial,
) -> None:
    async with trial.cluster() as cluster, asyncio.timeout(DEADLINE_S):
        await cluster.allocate("one", NODES[0])
        await trial.nodes.ready(NODES[0], "False")
        async for fact in cluster.facts():
            if not isinstance(fact, Ended) and fact.node == NODES[0] and not fact.present:
                break
        assert fact.why == "Ready is False: the test says False"
        assert cluster.absent() == {NODES[0]: fact.why}
        await cluster.release(NODES[0])
        listed = (await trial.client.get(paths.pods(trial.namespace)))["items"]
        assert listed == []


async def test_a_node_that_went_while_no_driver_looked_is_told_as_gone(trial: Trial) -> None:
    async with (
        trial.cluster(present=[*NODES, "went"]) as cluster,
        asyncio.timeout(DEADLINE_S),
        aclosing(cluster.facts()) as told,
    ):
        first = [await anext(told) for _ in range(3)]
    assert {fact.node: fact.present for fact in first} == {
        **dict.fromkeys(NODES, True),
        "went": False,
    }
    assert first[-1].why == "its Node object is deleted"


async def test_what_somebody_writes_over_our_labels_of_a_pod_ends_nobody(trial: Trial) -> None:
    async with trial.cluster() as cluster, asyncio.timeout(DEADLINE_S):
        await cluster.allocate("one", NODES[0])
        (before,) = (await trial.pods()).values()
        theirs = {"metadata": {"labels": {names.SLOT: "x", names.INCARNATION: ""}}}
        await trial.client.patch(paths.pods(trial.namespace, "one-0-1"), theirs)
        uid = before["metadata"]["uid"]
        await cluster.book.until(
            uid, lambda pod: pod is not None and pods.number(pod, names.SLOT) == 0
        )
        await cluster.allocate("other", NODES[1])
        for node in NODES:
            await cluster.release(node)


async def test_a_job_that_comes_back_at_once_gets_a_pod_that_is_to_stay(trial: Trial) -> None:
    """The watch has not told yet that the one before is being deleted."""
    async with trial.cluster() as cluster, asyncio.timeout(DEADLINE_S):
        for _ in range(5):
            await cluster.allocate("one", NODES[0])
            cluster.give_up(NODES[0])
            await cluster.release(NODES[0])
        await cluster.allocate("one", NODES[0])
        assert list(await trial.pods()) == ["one-0-6"]
        await cluster.release(NODES[0])


async def test_the_pod_that_tests_a_node_outlives_its_job_and_is_found_by_the_next_driver(
    trial: Trial,
) -> None:
    async with trial.cluster() as cluster:
        await cluster.distrust(NODES[0], incident=1, reason="it lies")
        await cluster.requalify(NODES[0], number=7, job="one", spec=spec_of(trial))
    await trial.client.delete(paths.training_jobs(trial.namespace, "one"))
    (before,) = (await trial.pods()).values()
    async with trial.cluster() as cluster:
        await cluster.requalify(NODES[0], number=7, job="one", spec=spec_of(trial))
        (after,) = (await trial.pods()).values()
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        pod = cluster.book.get(after["metadata"]["uid"])
        assert identity.unfit(pod, NODES[0]) == ""
        await cluster.release(NODES[0])
        assert await trial.pods() == {}
        await cluster.trust(NODES[0])


async def test_a_trials_pod_that_somebody_ends_is_told_as_nobodys(trial: Trial) -> None:
    async with trial.cluster() as cluster:
        await cluster.distrust(NODES[0], incident=1, reason="it lies")
        await cluster.requalify(NODES[0], number=7, job="one", spec=spec_of(trial))
        (pod,) = await trial.pods()
        ended = asyncio.create_task(first_end(cluster))
        await trial.delete(pod)
        assert ((await ended).job, (await ended).node) == ("", NODES[0])
        await cluster.trust(NODES[0])


async def first_end(cluster: KubernetesCluster) -> Ended:
    async with asyncio.timeout(DEADLINE_S), aclosing(cluster.facts()) as told:
        async for each in told:
            if isinstance(each, Ended):
                return each
    raise AssertionError("facts never end")


async def test_a_pod_of_another_with_the_name_of_a_trials_is_left_alone(trial: Trial) -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"holdfast-trial-{NODES[0]}-7"},
        "spec": {"containers": [{"name": "c", "image": "x"}], "nodeName": NODES[1]},
    }
    await trial.client.create(paths.pods(trial.namespace), foreign)
    async with trial.cluster() as cluster:
        with pytest.raises(PermanentError, match="is another's"):
            await cluster.requalify(NODES[0], number=7, job="one", spec=spec_of(trial))
        await cluster.release(NODES[0])
    assert list(await trial.pods()) == [foreign["metadata"]["name"]]


async def test_a_node_of_which_others_say_something_is_not_tested(trial: Trial) -> None:
    async with trial.cluster() as cluster, asyncio.timeout(DEADLINE_S):
        await trial.client.patch(paths.nodes(NODES[0]), {"spec": {"unschedulable": True}})
        async for fact in cluster.facts():
            if getattr(fact, "closed", ""):
                break
        with pytest.raises(TemporaryError, match="it is cordoned"):
            await cluster.requalify(NODES[0], number=7, job="one", spec=spec_of(trial))
        assert await trial.pods() == {}


async def until_ended(cluster: KubernetesCluster) -> AsyncIterator[Any]:
    """What the cluster tells, up to the first end of an executor."""
    async for each in cluster.facts():
        yield each
        if isinstance(each, Ended):
            return
