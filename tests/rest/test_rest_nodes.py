"""Nodes, incidents and the reasons for both, over REST."""

import re

from tests.rest.conftest import Driver

from holdfast.driver.core import events
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Task

NODES = "/v1alpha1/nodes"
NODE = (
    events.NodeAppeared(node="node-1", rack="rack-1"),
    events.ExecutorConnected(node="node-1", incarnation="a", address="127.0.0.1"),
)


async def test_a_node_is_listed_with_its_state(driver: Driver) -> None:
    await driver.happened(*NODE)
    (node,) = (await driver.http.get(NODES)).json()["items"]
    assert (node["name"], node["rack"], node["present"]) == ("node-1", "rack-1", True)
    assert (await driver.http.get(f"{NODES}/node-1")).json() == node
    assert (await driver.http.get(f"{NODES}/node-9")).status_code == 404


async def test_an_evicted_node_says_why_and_how_to_use_it_again(driver: Driver) -> None:
    await driver.happened(*NODE)
    answer = await driver.http.post(f"{NODES}/node-1/evict", json={"reason": "its fan is loud"})
    assert answer.status_code == 202
    node = (await driver.http.get(f"{NODES}/node-1")).json()
    assert node["state"] == "quarantined"
    assert "its fan is loud" in node["reason"]
    why = (await driver.http.get(f"{NODES}/node-1/why")).json()
    assert why["headline"].startswith("node-1 has been quarantined since ")
    assert any("its fan is loud" in line["text"] for line in why["lines"])
    assert "holdfast nodes restore node-1" in why["fix"]


async def test_a_node_says_when_it_is_tested_and_that_a_person_keeps_it_out(driver: Driver) -> None:
    plan = events.Plan(task=Task(command=("x",), workdir="."), nodes=1, ranks_per_node=1)
    fault = Finding(kind=Kind.KERNEL_FAULT, weight=Weight.CONCLUSIVE, node="node-1", summary="XID")
    await driver.happened(
        *NODE,
        events.JobSubmitted(job="job", plan=plan),
        events.NodeAllocated(job="job", node="node-1"),
        events.Found(finding=fault),
    )
    node = (await driver.http.get(f"{NODES}/node-1")).json()
    assert (node["on_trial"], node["next_trial_s"] > 0) == (False, True)
    why = (await driver.http.get(f"{NODES}/node-1/why")).json()
    assert "; it is tested at " in why["headline"]
    kept = await driver.http.post(f"{NODES}/node-1/evict", json={"reason": "to look at"})
    assert kept.status_code == 202
    assert (await driver.http.get(f"{NODES}/node-1")).json()["next_trial_s"] is None
    why = (await driver.http.get(f"{NODES}/node-1/why")).json()
    assert why["headline"].endswith("; only a person restores it")


async def test_a_request_about_a_node_is_answered_without_jobs_that_wait(driver: Driver) -> None:
    plan = events.Plan(task=Task(command=("x",), workdir="."), nodes=9, ranks_per_node=1)
    await driver.happened(*NODE, events.JobSubmitted(job="toobig", plan=plan))
    for what in ("evict", "restore"):
        answer = await driver.http.post(f"{NODES}/node-1/{what}", json={"reason": "x"})
        assert answer.status_code == 202
        assert "toobig" not in answer.json()["why"]
    told = (await driver.http.get(f"{NODES}/node-1/why")).json()["lines"]
    assert not [line for line in told if "toobig waits" in line["text"]]


async def test_a_restored_node_is_used_again(driver: Driver) -> None:
    await driver.happened(*NODE)
    await driver.http.post(f"{NODES}/node-1/evict", json={"reason": "loud"})
    answer = await driver.http.post(f"{NODES}/node-1/restore", json={"reason": "new fan"})
    assert answer.status_code == 202
    assert (await driver.http.get(f"{NODES}/node-1")).json()["state"] != "quarantined"
    again = await driver.http.post(f"{NODES}/node-1/restore", json={"reason": "new fan"})
    assert again.status_code == 409


async def test_an_eviction_needs_a_reason_and_a_node(driver: Driver) -> None:
    await driver.happened(*NODE)
    for body in ({}, {"reason": ""}, {"reason": 3}, [], {"reason": "x" * 501}):
        answer = await driver.http.post(f"{NODES}/node-1/evict", json=body)
        assert answer.status_code == 422, body
        assert answer.json()["errors"][0]["field"] == "reason"
    nobody = await driver.http.post(f"{NODES}/node-9/evict", json={"reason": "x"})
    assert nobody.status_code == 404


async def test_a_node_that_is_to_be_free_says_so_and_is_given_back(driver: Driver) -> None:
    await driver.happened(*NODE)
    body = {"reason": "new kernel", "within_s": 300}
    answer = await driver.http.post(f"{NODES}/node-1/maintain", json=body)
    assert answer.status_code == 202
    assert "node-1 is to be free within 300 s" in answer.json()["why"]
    node = (await driver.http.get(f"{NODES}/node-1")).json()
    assert (node["state"], node["free_by_s"] > 0) == ("maintenance", True)
    assert "new kernel" in node["reason"]
    why = (await driver.http.get(f"{NODES}/node-1/why")).json()
    assert why["headline"].startswith("node-1 is kept free: a person wants to work on it")
    await driver.http.post(f"{NODES}/node-1/restore", json={"reason": "done"})
    assert (await driver.http.get(f"{NODES}/node-1")).json()["state"] == "free"


async def test_a_notice_needs_a_time_that_is_one(driver: Driver) -> None:
    await driver.happened(*NODE)
    for within_s in ("soon", 0, -1, 1e9, True):
        body = {"reason": "new kernel", "within_s": within_s}
        answer = await driver.http.post(f"{NODES}/node-1/maintain", json=body)
        assert answer.status_code == 422, within_s
        assert answer.json()["errors"][0]["field"] == "within_s"


async def test_the_brake_is_applied_shown_and_released(driver: Driver) -> None:
    brake = "/v1alpha1/brake"
    assert not (await driver.http.get(brake)).json()["on"]
    for act, status in (("release", 409), ("apply", 202), ("apply", 409), ("release", 202)):
        answer = await driver.http.post(f"{brake}/{act}", json={"reason": "we rewire"})
        assert answer.status_code == status, act
        shown = (await driver.http.get(brake)).json()
        assert shown["on"] == (act == "apply")
        assert f"holdfast_brake {float(shown['on'])}" in (await driver.http.get("/metrics")).text
    assert "we rewire" in shown["why"]


async def test_a_jobs_story_tells_its_decisions_in_order(driver: Driver) -> None:
    await driver.submit()
    await driver.happened(*NODE)
    lines = (await driver.http.get("/v1alpha1/jobs/speech/story")).json()["lines"]
    assert lines
    assert [line["sequence"] for line in lines] == sorted(line["sequence"] for line in lines)
    assert all(line["text"] for line in lines)
    why = (await driver.http.get("/v1alpha1/jobs/speech/why")).json()
    assert why["headline"].startswith("speech has been ")
    assert why["lines"]


async def test_a_story_is_that_of_the_job_that_has_the_name_now(driver: Driver) -> None:
    url = "/v1alpha1/jobs/speech/story"
    await driver.submit()
    first = (await driver.http.get(url, params={"earlier": "true"})).json()
    assert first["earlier"] is False
    assert (await driver.http.delete("/v1alpha1/jobs/speech")).status_code == 202
    await driver.submit()
    told = (await driver.http.get(url)).json()
    whole = (await driver.http.get(url, params={"earlier": "true"})).json()
    assert told["earlier"] is whole["earlier"] is True
    texts = [[line["text"] for line in each["lines"]] for each in (first, told, whole)]
    assert texts[0] == texts[1], "both were submitted and wait"
    assert len(texts[2]) > 2 * len(texts[1]), "the end of the first is told, too"
    assert whole["lines"][-len(texts[1]) :] == told["lines"]
    assert (await driver.http.get(url, params={"after": "1"})).json()["lines"] == told["lines"]
    why = (await driver.http.get("/v1alpha1/jobs/speech/why")).json()
    assert why["lines"] == told["lines"]


async def test_a_story_leaves_out_what_is_no_news_unless_all_is_asked_for(driver: Driver) -> None:
    await driver.submit()
    await driver.happened(*NODE)
    url = "/v1alpha1/jobs/speech/story"
    told = [line["text"] for line in (await driver.http.get(url)).json()["lines"]]
    whole = (await driver.http.get(url, params={"all": "true"})).json()["lines"]
    assert not [text for text in told if "executor" in text]
    assert [line["text"] for line in whole if line["seen"] and "executor" in line["text"]]


async def test_there_are_no_incidents_until_there_is_one(driver: Driver) -> None:
    assert (await driver.http.get("/v1alpha1/incidents")).json() == {"items": []}
    assert (await driver.http.get("/v1alpha1/incidents/7")).status_code == 404


async def test_a_job_that_never_ran_has_no_attempts(driver: Driver) -> None:
    await driver.submit()
    assert (await driver.http.get("/v1alpha1/jobs/speech/attempts")).json() == {"items": []}
    assert (await driver.http.get("/v1alpha1/jobs/nobody/attempts")).status_code == 404


async def test_who_is_not_of_the_cluster_is_listed_as_that_while_it_is_connected(
    driver: Driver,
) -> None:
    came = events.ExecutorConnected(node="node-9", incarnation="a", address="127.0.0.1")
    await driver.happened(came)
    (node,) = (await driver.http.get(NODES)).json()["items"]
    told = "it is connected, but the cluster does not know it"
    assert (node["state"], node["reason"]) == ("unknown", told)
    why = (await driver.http.get(f"{NODES}/node-9/why")).json()
    assert why["headline"] == "node-9 is connected, but the cluster does not know it"
    evicted = await driver.http.post(f"{NODES}/node-9/evict", json={"reason": "who is this?"})
    assert evicted.status_code == 409
    await driver.happened(events.ExecutorDisconnected(node="node-9", incarnation="a"))
    assert (await driver.http.get(NODES)).json() == {"items": []}


async def test_nodes_that_were_never_ready_are_shown_with_why_and_so_is_a_job_that_waits(
    driver: Driver,
) -> None:
    await driver.submit()
    why = "Ready is False: no network yet"
    driver.control.absent = lambda: {f"node-{number}": why for number in range(1, 5)}
    nodes = (await driver.http.get(NODES)).json()["items"]
    assert [(node["name"], node["state"]) for node in nodes[:1]] == [("node-1", "gone")]
    assert {node["reason"] for node in nodes} == {why}
    told = (await driver.http.get(f"{NODES}/node-2/why")).json()
    assert told["headline"] == f"node-2 is gone: {why}"
    said = f"; nodes that there are: 4, and none is ready (node-1: {why}, node-2: {why}, node-3: "
    assert said in (await driver.http.get("/v1alpha1/jobs/speech")).json()["waiting"]
    told = (await driver.http.get("/v1alpha1/jobs/speech/why")).json()
    assert told["headline"].endswith(": it needs 1 node, and none is free"), "the reason alone"
    (detail,) = told["details"]
    assert detail.startswith(f"nodes that there are: 4, and none is ready (node-1: {why}, node-2")
    await driver.happened(*NODE)
    assert "none is ready" not in (await driver.http.get("/v1alpha1/jobs/speech")).json()["waiting"]


async def test_a_free_node_is_free_where_an_executor_comes_with_a_job(driver: Driver) -> None:
    await driver.happened(events.NodeAppeared(node="node-1"))
    for executors_first, state in ((True, "unknown"), (False, "free")):
        driver.control.executors_first = executors_first
        assert (await driver.http.get(f"{NODES}/node-1")).json()["state"] == state


async def test_why_of_a_node_tells_since_when_its_incidents_and_what_to_type(
    driver: Driver,
) -> None:
    await driver.happened(*NODE)
    why = (await driver.http.get(f"{NODES}/node-1/why")).json()
    assert why["headline"] == "node-1 is free"
    since, none = why["details"]
    assert re.fullmatch(r"since \d\d:\d\d:\d\d", since)
    assert none == "it was in no incident"
    assert why["fix"] == "All nodes: holdfast nodes"
    plan = events.Plan(task=Task(command=("x",), workdir="."), nodes=1, ranks_per_node=1)
    told = Finding(kind=Kind.KERNEL_FAULT, weight=Weight.REPORT, node="node-1", summary="XID 94")
    await driver.happened(
        events.JobSubmitted(job="job", plan=plan),
        events.NodeAllocated(job="job", node="node-1"),
        events.Found(finding=told),
    )
    why = (await driver.http.get(f"{NODES}/node-1/why")).json()
    assert why["headline"] == "node-1 works for job"
    assert re.fullmatch(r"since \d\d:\d\d:\d\d", why["details"][0])
    assert re.match(r"incident 1 at \d\d:\d\d:\d\d: XID 94", why["details"][1])
    assert why["fix"] == "How its job is: holdfast status job"
