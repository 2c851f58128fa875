"""What is known of pods: from a watch, and from the answers to our own writes, in any order."""

import asyncio
from typing import Any

from holdfast.driver.adapters.kubernetes import pods, podspec
from holdfast.driver.adapters.kubernetes.podbook import PodBook
from holdfast.protocol.nodeenv import Drivers

JOB = {"metadata": {"name": "speech", "namespace": "lab", "uid": "job-1"}}
TEMPLATE = {"spec": {"pod": {"image": "speech:1"}}}


def pod(version: int, *, slot: int = 0, node: str = "", uid: str = "") -> dict[str, Any]:
    """A pod of the job for node-SLOT; `node`: where it is bound."""
    order = podspec.Order(JOB | TEMPLATE, f"node-{slot}", slot, 1, Drivers(["http://a:1"]))
    made = podspec.manifest(order)
    made["metadata"] |= {"uid": uid or f"pod-{slot}", "resourceVersion": str(version)}
    made["spec"] |= {"nodeName": node} if node else {}
    return made


def test_an_answer_that_comes_after_what_the_watch_told_does_not_set_it_back() -> None:
    book = PodBook()
    book.put(pod(7, node="node-0"))
    book.wrote(pod(5))
    seen = book.get("pod-0")
    assert seen == pod(7, node="node-0")


def test_an_answer_about_a_pod_whose_end_the_watch_told_brings_nothing_back() -> None:
    book = PodBook()
    book.put(pod(5))
    book.told(9)
    book.drop(pod(9))
    book.wrote(pod(5))
    assert book.get("pod-0") is None
    assert book.on("node-0") == []


def test_an_answer_that_comes_first_is_known_at_once() -> None:
    book = PodBook()
    book.put(pod(5, slot=1))
    book.wrote(pod(6))
    assert book.living("node-0", JOB) is not None
    assert book.next_incarnation("job-1", 0) == 2


def test_a_store_that_was_set_back_is_told_by_the_watch_and_believed() -> None:
    book = PodBook()
    book.told(90)
    book.put(pod(90, node="node-0"))
    book.put(pod(5))
    book.told(5)
    book.wrote(pod(6, slot=1))
    assert book.get("pod-0") == pod(5)
    assert book.get("pod-1") is not None


def test_an_answer_while_a_list_is_read_is_known_though_a_page_had_what_is_newer() -> None:
    """Pages come by name: that one is newer says nothing of a pod that is on a later page."""
    book = PodBook()
    book.told(5)
    book.put(pod(9))
    book.wrote(pod(7, slot=1))
    assert book.get("pod-1") is not None


def test_a_pod_that_is_given_up_is_nobodys_though_its_end_is_not_told_yet() -> None:
    book = PodBook()
    book.put(pod(5))
    book.give_up("pod-0")
    assert book.living("node-0", JOB) is None
    assert len(book.on("node-0")) == 1


def test_a_pod_of_another_namespace_that_names_the_job_as_its_owner_is_not_taken_for_its_own() -> (
    None
):
    """No owner is of another namespace, but until its collector finds that, a pod may say so."""
    foreign = pod(5, uid="foreign")
    foreign["metadata"]["namespace"] = "others"
    book = PodBook()
    book.put(foreign)
    assert book.living("node-0", JOB) is None
    book.put(pod(6))
    mine = book.living("node-0", JOB)
    assert mine is not None
    assert mine["metadata"]["uid"] == "pod-0"


async def test_whoever_waits_for_a_pod_is_told_of_its_change_and_of_its_end() -> None:
    book = PodBook()
    book.put(pod(5))
    bound = asyncio.create_task(book.until("pod-0", lambda seen: not seen or pods.bound(seen)))
    gone = asyncio.create_task(book.until("pod-0", lambda seen: seen is None))
    await asyncio.sleep(0)
    book.put(pod(6, node="node-0"))
    assert await bound == pod(6, node="node-0")
    book.drop(pod(7))
    assert await gone is None
