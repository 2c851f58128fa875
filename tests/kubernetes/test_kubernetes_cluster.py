"""Kubernetes as a cluster, on a real API server: what it promises, and whom it leaves alone."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cluster_contract import PROMISES, first_facts, of_trials
from made_nodes import MadeNodes
from waiting import DEADLINE_S, LOOK_S

from holdfast.driver.adapters.kubernetes import identity, marks, names, paths, pods
from holdfast.driver.adapters.kubernetes.client import Client, Patch
from holdfast.driver.adapters.kubernetes.cluster import KubernetesCluster
from holdfast.driver.adapters.kubernetes.errors import Unreachable
from holdfast.driver.adapters.kubernetes.objects import TrainingJobs
from holdfast.driver.ports import Ended, PermanentError, TemporaryError, UnfitError
from holdfast.kit.clock import SystemClock
from holdfast.protocol.nodeenv import Drivers

pytestmark = pytest.mark.kubernetes

NODES = ("contract-1", "contract-2")
JOBS = ("one", "other")


def training_job(name: str, **pod: Any) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {"command": ["true"], "pod": {"image": "holdfast-executor:1", **pod}},
    }


class Trial:
    """A namespace with two TrainingJobs, two nodes, and clusters that see them."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.nodes = MadeNodes(client, *NODES, mark=namespace)

    @asynccontextmanager
    async def cluster(
        self,
        held: dict[str, str] | None = None,
        present: Sequence[str] = (),
        *,
        placed_within_s: float = DEADLINE_S,
    ) -> AsyncIterator[KubernetesCluster]:
        """As one driver has it; `held`, `present`: what the driver's journal says."""
        objects = TrainingJobs(self.client, names.Jobs(self.namespace))
        made = KubernetesCluster(
            self.client,
            objects,
            clock=SystemClock(),
            drivers=Drivers(["http://127.0.0.1:1"]),
            namespace=self.namespace,
            node_selector=f"made={self.namespace}",
            placed_within_s=placed_within_s,
        )
        made.expect(held or {}, present)

        async def follow() -> None:
            async for _ in objects.changes():
                pass

        running = [asyncio.create_task(made.run()), asyncio.create_task(follow())]
        yield made
        for task in running:
            task.cancel()
        await asyncio.wait(running)

    async def pods(self) -> dict[str, dict[str, Any]]:
        """Those that are to stay, by name."""
        found = (await self.client.get(paths.pods(self.namespace)))["items"]
        return {
            each["metadata"]["name"]: each
            for each in found
            if "deletionTimestamp" not in each["metadata"]
        }

    async def delete(self, pod: str) -> None:
        await self.client.delete(paths.pods(self.namespace, pod), grace_s=0)


@pytest.fixture
async def trial(crd, request) -> AsyncIterator[Trial]:
    namespace = f"trial-{abs(hash(request.node.name)) % 10**8}"
    crd.kubectl("create", "namespace", namespace)
    async with Client.from_kubeconfig(crd.admin, user_agent="tests") as client:
        made = Trial(client, namespace)
        for job in JOBS:
            await client.create(paths.training_jobs(namespace), training_job(job))
        at = paths.service_accounts(namespace, "default")

        async with asyncio.timeout(DEADLINE_S):
            while not await there(client, at):
                await asyncio.sleep(0.05)
        await made.nodes.make()
        keeping = asyncio.create_task(made.nodes.keep())
        yield made
        keeping.cancel()
        await asyncio.wait([keeping])
        await made.nodes.remove()
        crd.kubectl("delete", "namespace", namespace, "--wait=false")


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


async def test_a_pod_that_no_node_has_room_for_is_taken_back_with_the_schedulers_reason(
    trial: Trial,
) -> None:
    greedy = training_job("greedy", resources={"limits": {"cpu": "9"}})
    await trial.client.create(paths.training_jobs(trial.namespace), greedy)
    async with trial.cluster(placed_within_s=4.0) as cluster:
        await first_facts(cluster, 2)
        with pytest.raises(UnfitError, match="Insufficient cpu"):
            await cluster.allocate("greedy", NODES[0])
        assert await trial.pods() == {}


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


async def test_a_distrusted_node_says_who_did_it_why_when_and_for_which_incident(
    trial: Trial,
) -> None:
    async with trial.cluster() as cluster:
        await first_facts(cluster, 2)
        before = datetime.now(UTC)
        await cluster.distrust(NODES[0], incident=7, reason="it lies")
        seen = await trial.client.get(paths.nodes(NODES[0]))
        await cluster.trust(NODES[0])
    told = seen["metadata"]["annotations"]
    assert (told[names.BY], told[names.WHY], told[names.INCIDENT]) == ("holdfast", "it lies", "7")
    since = datetime.fromisoformat(told[names.SINCE])
    assert timedelta(seconds=-1) < since - before < timedelta(seconds=DEADLINE_S)
    (taint,) = [each for each in seen["spec"]["taints"] if each["key"] == names.TAINT]
    assert (taint["value"], taint["effect"]) == ("incident-7", "NoSchedule")
    (said,) = [each for each in seen["status"]["conditions"] if each["type"] == names.CONDITION]
    assert (said["status"], said["reason"], said["message"]) == ("True", "Evicted", "it lies")


async def test_a_condition_that_a_node_has_already_does_not_turn_again(trial: Trial) -> None:
    """As where a driver is killed between the condition and the taint: the next finds the one."""
    turned = "2026-01-01T00:00:00Z"
    async with trial.cluster() as cluster:
        await first_facts(cluster, 2)
        await cluster.distrust(NODES[0], incident=7, reason="it lies")
        older = {"type": names.CONDITION, "status": "True", "lastTransitionTime": turned}
        body = {"status": {"conditions": [older]}}
        await trial.client.patch(paths.nodes(NODES[0], "status"), body, Patch.STRATEGIC)
        await trial.client.patch(paths.nodes(NODES[0]), {"spec": {"taints": None}})
        await cluster.distrust(NODES[0], incident=7, reason="it lies")
        seen = await trial.client.get(paths.nodes(NODES[0]))
        await cluster.trust(NODES[0])
    assert marks.marked(seen, incident=7)
    (said,) = [each for each in seen["status"]["conditions"] if each["type"] == names.CONDITION]
    assert said["lastTransitionTime"] == turned


async def test_a_person_may_mark_a_node_too_and_keeps_that_mark(trial: Trial) -> None:
    theirs = {"spec": {"taints": [{"key": "of/theirs", "effect": "NoSchedule"}]}}
    async with trial.cluster() as cluster:
        await first_facts(cluster, 2)
        await cluster.distrust(NODES[0], incident=7, reason="it lies")
        seen = await trial.client.get(paths.nodes(NODES[0]))
        taints = [*seen["spec"]["taints"], *theirs["spec"]["taints"]]
        await trial.client.patch(paths.nodes(NODES[0]), {"spec": {"taints": taints}})
        await cluster.trust(NODES[0])
        seen = await trial.client.get(paths.nodes(NODES[0]))
    assert [each["key"] for each in seen["spec"]["taints"]] == ["of/theirs"]
    assert not set(names.MARKS) & seen["metadata"].get("annotations", {}).keys()
    said = {each["type"]: each["status"] for each in seen["status"]["conditions"]}
    assert said[names.CONDITION] == "False"
    assert said["Ready"] == "True"


async def test_a_node_is_said_to_be_trusted_though_somebody_took_our_marks_off_before(
    trial: Trial,
) -> None:
    """And that they are gone is told, as it is of a Node that was made anew."""
    unmarked = {"metadata": {"annotations": dict.fromkeys(names.MARKS)}, "spec": {"taints": None}}
    async with trial.cluster() as cluster, aclosing(cluster.facts()) as facts_of:

        async def told(distrusted: bool) -> None:
            async with asyncio.timeout(DEADLINE_S):
                async for fact in facts_of:
                    if (fact.node, getattr(fact, "distrusted", None)) == (NODES[0], distrusted):
                        return

        await cluster.distrust(NODES[0], incident=7, reason="it lies")
        await told(distrusted=True)
        await trial.client.patch(paths.nodes(NODES[0]), unmarked)
        await told(distrusted=False)
        await cluster.trust(NODES[0])
        seen = await trial.client.get(paths.nodes(NODES[0]))
    said = {each["type"]: each["status"] for each in seen["status"]["conditions"]}
    assert said[names.CONDITION] == "False"


def spec_of(trial: Trial) -> bytes:
    """Of job "one", as it was accepted."""
    metadata = {"name": "one", "namespace": trial.namespace}
    return json.dumps({**training_job("one"), "metadata": metadata}).encode()


async def test_the_pod_that_tests_a_node_outlives_its_job_and_is_found_by_the_next_driver(
    trial: Trial,
) -> None:
    async with trial.cluster() as cluster:
        await cluster.distrust(NODES[0], incident=1, reason="it lies")
        await cluster.put_on_trial(NODES[0], trial=7, job="one", spec=spec_of(trial))
    await trial.client.delete(paths.training_jobs(trial.namespace, "one"))
    (before,) = (await trial.pods()).values()
    async with trial.cluster() as cluster:
        await cluster.put_on_trial(NODES[0], trial=7, job="one", spec=spec_of(trial))
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
        await cluster.put_on_trial(NODES[0], trial=7, job="one", spec=spec_of(trial))
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
        assert await who.refusal(NODES[0], forged) == ""
        cluster.want([NODES[0]])
        assert dropped == [NODES[0]]
        assert "is not the one" in await who.refusal(NODES[0], forged)
        await cluster.put_on_trial(NODES[0], trial=7, job="one", spec=spec_of(trial))
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
            await cluster.put_on_trial(NODES[0], trial=7, job="one", spec=spec_of(trial))
        await cluster.release(NODES[0])
    assert list(await trial.pods()) == [foreign["metadata"]["name"]]


async def test_a_node_of_which_others_say_something_is_not_tested(trial: Trial) -> None:
    async with trial.cluster() as cluster, asyncio.timeout(DEADLINE_S):
        await trial.client.patch(paths.nodes(NODES[0]), {"spec": {"unschedulable": True}})
        async for fact in cluster.facts():
            if getattr(fact, "closed", ""):
                break
        with pytest.raises(TemporaryError, match="it is cordoned"):
            await cluster.put_on_trial(NODES[0], trial=7, job="one", spec=spec_of(trial))
        assert await trial.pods() == {}


async def test_other_peoples_pods_are_kept_off_a_distrusted_node_until_it_is_trusted(
    trial: Trial,
) -> None:
    here = {"key": "metadata.name", "operator": "In", "values": [NODES[0]]}
    only = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    spec = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": only}}}
    spec |= {"containers": [{"name": "c", "image": "x"}]}
    plain = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, "spec": spec}
    async with trial.cluster() as cluster, asyncio.timeout(DEADLINE_S):
        await first_facts(cluster, 2)
        await cluster.distrust(NODES[0], incident=7, reason="it lies")
        await trial.client.create(paths.pods(trial.namespace), plain)
        while not (why := scheduler_said(await trial.pods(), "plain")):
            await asyncio.sleep(LOOK_S)
        assert "untolerated taint" in why
        await cluster.trust(NODES[0])
        while not (node := (await trial.pods())["plain"]["spec"].get("nodeName")):
            await asyncio.sleep(LOOK_S)
        assert node == NODES[0]
    await trial.delete("plain")


def scheduler_said(pods: dict[str, dict[str, Any]], name: str) -> str:
    """Why this pod has no node, once that was tried."""
    conditions = pods[name]["status"].get("conditions", ())
    return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")


async def there(client: Client, at: str) -> bool:
    try:
        await client.get(at)
    except PermanentError:
        return False
    return True


async def until_ended(cluster: KubernetesCluster) -> AsyncIterator[Any]:
    """What the cluster tells, up to the first end of an executor."""
    async for each in cluster.facts():
        yield each
        if isinstance(each, Ended):
            return
