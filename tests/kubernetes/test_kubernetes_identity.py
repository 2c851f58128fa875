"""How often the API server is asked whose a token is, and what is looked up each time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from waiting import DEADLINE_S

from holdfast.driver.adapters.kubernetes import identity, names
from holdfast.driver.adapters.kubernetes.podbook import PodBook
from holdfast.driver.ports import TemporaryError
from holdfast.kit.clock import SystemClock
from holdfast.kubeapi.client import Client

Object = dict[str, Any]


class Reviewer:
    """The API server: knows the token of pod `uid-7`, and is away as often as `away` says."""

    def __init__(self, *, away: int = 0) -> None:
        self.asked = 0
        self.away = away

    async def ask(self, path: str, body: Object) -> Object:
        self.asked += 1
        await asyncio.sleep(0)
        if self.asked <= self.away:
            raise TemporaryError("no answer")
        good = body["spec"]["token"] == "good"
        user = {"extra": {identity.POD_UID: ["uid-7"]}}
        return {"status": {"authenticated": good, "audiences": [names.AUDIENCE], "user": user}}


def made(
    reviewer: Reviewer,
    hears: Callable[[Object], bool] = lambda pod: True,
    listed: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0),
) -> tuple[identity.PodIdentity, PodBook, Object]:
    """The identity, with one pod that runs on node-7."""
    owner = {"controller": True, "apiVersion": names.API_VERSION, "uid": "job"}
    labels = {names.SLOT: "0", names.INCARNATION: "1"}
    metadata = {"name": "job-0-1", "namespace": "default", "uid": "uid-7", "labels": labels}
    metadata |= {"resourceVersion": "1"}
    metadata |= {"annotations": {names.NODE: "node-7"}, "ownerReferences": [owner]}
    pod = {"metadata": metadata, "spec": {"nodeName": "node-7"}, "status": {}}
    book = PodBook()
    book.put(pod)
    client = cast(Client, reviewer)
    who = identity.PodIdentity(client, book, hears=hears, listed=listed, clock=SystemClock())
    return who, book, pod


async def test_both_processes_of_a_pod_are_admitted_by_one_review() -> None:
    reviewer = Reviewer()
    who, _, _ = made(reviewer)
    together = await asyncio.gather(*(who.refusal("node-7", "good") for _ in range(2)))
    assert [*together, await who.refusal("node-7", "good")] == [""] * 3
    assert reviewer.asked == 1


async def test_a_token_that_was_good_is_no_use_once_its_pod_is_gone() -> None:
    who, book, pod = made(Reviewer())
    assert await who.refusal("node-7", "good") == ""
    book.drop(pod)
    assert "gone" in await who.refusal("node-7", "good")


async def test_a_pod_that_is_heard_no_more_is_refused_in_a_sentence() -> None:
    who, _, pod = made(Reviewer(), hears=lambda pod: False)
    why = "pod job-0-1 is not the one that has node node-7"
    assert await who.refusal("node-7", "good") == why
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    why = "pod job-0-1 is being deleted, and nothing waits for its end"
    assert await who.refusal("node-7", "good") == why


async def test_the_connections_of_a_pod_end_when_another_has_its_place() -> None:
    who, _, _ = made(Reviewer())
    dropped: list[str] = []
    replaced = who.when_gone(lambda node, why: dropped.append(f"{node}: {why}"))
    assert await who.refusal("node-7", "good") == ""
    replaced("node-7", "uid-7")
    assert dropped == []
    replaced("node-7", "uid-8")
    assert dropped == ["node-7: another pod has its place"]


async def test_what_was_refused_or_not_answered_is_asked_anew() -> None:
    reviewer = Reviewer(away=1)
    who, _, _ = made(reviewer)
    with pytest.raises(TemporaryError, match="does not say whose token it is: no answer"):
        await who.refusal("node-7", "good")
    assert await who.refusal("node-7", "good") == ""
    assert "not good" in await who.refusal("node-7", "bad")
    assert reviewer.asked == 3


async def test_no_review_is_asked_for_before_the_pods_were_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reviewer, listed = Reviewer(), asyncio.Event()

    async def until_listed() -> None:
        await listed.wait()

    who, _, _ = made(reviewer, listed=until_listed)
    monkeypatch.setattr(identity, "LISTED_WITHIN_S", 0.0)
    with pytest.raises(TemporaryError, match="has not seen the pods"):
        await who.refusal("node-7", "good")
    monkeypatch.setattr(identity, "LISTED_WITHIN_S", DEADLINE_S)
    waiting = asyncio.create_task(who.refusal("node-7", "good"))
    await asyncio.sleep(0)
    assert (reviewer.asked, waiting.done()) == (0, False)
    listed.set()
    assert await waiting == ""
