"""The marks of a distrusted node on a real API server: whose they are, and whom they keep off."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cluster_contract import first_facts
from cluster_trial import NODES, Trial
from waiting import DEADLINE_S, LOOK_S

from holdfast.driver.adapters.kubernetes import marks, names
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Patch

pytestmark = pytest.mark.kubernetes


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
