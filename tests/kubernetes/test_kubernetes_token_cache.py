"""Which tokens are believed while the API server is away, and which never."""

import asyncio
import base64
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest
from authorities import NOW, WallClock

from holdfast.driver.adapters.kubernetes import identity, names
from holdfast.driver.adapters.kubernetes.podbook import PodBook
from holdfast.driver.adapters.kubernetes.token_cache import good_until
from holdfast.driver.ports import TemporaryError
from holdfast.kubeapi import errors
from holdfast.kubeapi.client import Client

Object = dict[str, Any]

NODE = "node-7"
HOUR_S = 3_600.0


def token(name: str, claims: object = None) -> str:
    """As an API server makes one: good for an hour, but for what `claims` say."""
    said = {"exp": NOW.timestamp() + HOUR_S} if claims is None else claims
    return f"{name}.{base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip('=')}.sig"


class Server:
    """The API server, to whom every token is good and of pod `uid-7`, or which raises `fails`."""

    def __init__(self) -> None:
        self.asked = 0
        self.good = True
        self.fails: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    async def ask(self, path: str, body: Object) -> Object:
        self.asked += 1
        await self.answers.wait()
        if self.fails is not None:
            raise self.fails
        user = {"extra": {identity.POD_UID: ["uid-7"]}}
        return {"status": {"authenticated": self.good, "audiences": [names.AUDIENCE], "user": user}}


class Driver:
    """What of a driver admits nodes; it has a pod on node-7."""

    def __init__(self) -> None:
        self.server, self.book, self.clock = Server(), PodBook(), WallClock()
        owner = {"controller": True, "apiVersion": names.API_VERSION, "uid": "job"}
        metadata = {"name": "job-0-1", "uid": "uid-7", "resourceVersion": "1"}
        metadata |= {"annotations": {names.NODE: NODE}, "ownerReferences": [owner]}
        self.pod: Object = {"metadata": metadata, "spec": {"nodeName": NODE}, "status": {}}
        self.book.put(self.pod)
        self._identity = identity.PodIdentity(
            cast(Client, self.server),
            self.book,
            hears=lambda pod: True,
            listed=lambda: asyncio.sleep(0),
            clock=self.clock,
        )

    async def refusal(self, token: str, node: str = NODE) -> str:
        """Of a connect that has a review of its own."""
        before = self.server.asked
        why = await self._identity.refusal(node, token)
        assert self.server.asked == before + 1
        await asyncio.sleep(0)
        return why


@pytest.fixture
async def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """With an API server that goes away once it has vouched for the token "one"."""
    monkeypatch.setattr(identity, "REVIEWED_S", 0.0)
    made = Driver()
    assert await made.refusal(token("one")) == ""
    made.server.fails = errors.Unreachable("POST tokenreviews: Connection refused")
    return made


@pytest.mark.parametrize("answer", [errors.Unreachable, errors.Unavailable])
async def test_while_the_api_server_is_away_a_token_is_good_that_was_reviewed(
    driver: Driver, answer: Callable[[str], Exception]
) -> None:
    driver.server.fails = answer("POST tokenreviews")
    assert [await driver.refusal(token("one")) for _ in range(2)] == ["", ""]


@pytest.mark.parametrize(
    "answer", [errors.Forbidden, errors.Malformed, errors.TooMany, errors.Unauthorized]
)
async def test_another_answer_than_none_is_no_reason_to_believe_it(
    driver: Driver, answer: Callable[[str], Exception]
) -> None:
    driver.server.fails = answer("POST tokenreviews")
    with pytest.raises(TemporaryError, match="does not say whose token it is"):
        await driver.refusal(token("one"))


async def test_nor_is_an_api_server_believed_less_that_is_there_and_says_no(driver: Driver) -> None:
    driver.server.fails, driver.server.good = None, False
    assert "not good" in await driver.refusal(token("one"))


@pytest.mark.parametrize(
    "other", [token("other"), token("one", {"exp": 1e12}), ""], ids=["other", "forged", "none"]
)
async def test_nobody_can_say_whose_another_token_is(driver: Driver, other: str) -> None:
    with pytest.raises(TemporaryError, match="Connection refused"):
        await driver.refusal(other)


async def test_it_is_good_for_its_own_node_alone(driver: Driver) -> None:
    with pytest.raises(TemporaryError, match="Connection refused"):
        await driver.refusal(token("one"), "node-8")


async def test_it_is_good_no_longer_than_it_says_itself(driver: Driver) -> None:
    driver.clock.now += timedelta(seconds=HOUR_S - 1.0)
    assert await driver.refusal(token("one")) == ""
    driver.clock.now += timedelta(seconds=1.0)
    with pytest.raises(TemporaryError, match="Connection refused"):
        await driver.refusal(token("one"))


async def test_it_is_good_no_longer_than_its_pod_is_there(driver: Driver) -> None:
    driver.book.drop(driver.pod)
    with pytest.raises(TemporaryError, match="Connection refused"):
        await driver.refusal(token("one"))
    driver.book.put(driver.pod)  # as the watch cannot tell it: a UID does not come again
    with pytest.raises(TemporaryError, match="Connection refused"):
        await driver.refusal(token("one"))


async def test_of_a_pod_the_newest_token_is_kept_and_no_other(driver: Driver) -> None:
    away, driver.server.fails = driver.server.fails, None
    assert await driver.refusal(token("two")) == ""
    driver.server.fails = away
    assert await driver.refusal(token("two")) == ""
    with pytest.raises(TemporaryError, match="Connection refused"):
        await driver.refusal(token("one"))


async def test_an_api_server_that_does_not_answer_at_all_is_away_too(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "ANSWERED_WITHIN_S", 0.0)
    driver.server.answers.clear()
    assert await driver.refusal(token("one")) == ""
    driver.server.answers.set()


@pytest.mark.parametrize(
    "unreadable",
    ["", "opaque", "a.b.c", "a.é.c", "a..c", *(token("t", c) for c in ({}, [], {"exp": "9e9"}))],
)
async def test_a_token_that_does_not_say_how_long_it_is_good_is_not_kept(
    driver: Driver, unreadable: str
) -> None:
    assert good_until(unreadable) == 0.0
    driver.server.fails = None
    assert await driver.refusal(unreadable) == ""
    driver.server.fails = errors.Unreachable("POST tokenreviews: Connection refused")
    with pytest.raises(TemporaryError, match="Connection refused"):
        await driver.refusal(unreadable)
