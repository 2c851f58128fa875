"""When a refusal is believed: not before it has lasted, and never where nothing was heard."""

import asyncio
from typing import Any, cast

import pytest

from holdfast.driver.adapters.kubernetes import rights
from holdfast.driver.ports import PermanentError
from holdfast.kubeapi import paths
from holdfast.kubeapi.client import Client
from holdfast.kubeapi.errors import Forbidden, Unreachable

pytestmark = pytest.mark.looptime

Object = dict[str, Any]
NEEDED = rights.needed(namespace="lab", lease="")


class Judge:
    """An API server that allows everything once the loop's time is `knows_s`, and nothing before.

    `closed`: before that it does not even let anybody ask.
    """

    def __init__(self, *, knows_s: float, closed: bool = False) -> None:
        self._knows_s = knows_s
        self._closed = closed
        self.asked: list[Object] = []

    async def ask(self, path: str, body: Object) -> Object:
        knows = asyncio.get_running_loop().time() >= self._knows_s
        if path == paths.self_reviews():
            return {"status": {"userInfo": {"username": "ada"}}}
        self.asked.append(body["spec"]["resourceAttributes"])
        if not knows and self._closed:
            raise Forbidden("selfsubjectaccessreviews is forbidden", status=403)
        return {"status": {"allowed": knows}}


class Away:
    """An API server that does not answer one of the questions."""

    async def ask(self, path: str, body: Object) -> Object:
        if body["spec"]["resourceAttributes"]["verb"] == "patch":
            raise Unreachable("no answer in time")
        return {"status": {"allowed": False}}


def now_s() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("closed", [False, True])
async def test_a_server_that_knows_no_roles_yet_is_asked_until_it_does(closed: bool) -> None:
    judge = Judge(knows_s=rights.BELIEVED_S * 0.9, closed=closed)
    await rights.confirm(cast(Client, judge), NEEDED)
    assert now_s() < rights.BELIEVED_S + 1.0
    assert len(judge.asked) > len(NEEDED)


async def test_what_is_refused_for_long_is_believed_and_named_with_who_is_refused() -> None:
    judge = Judge(knows_s=1_000.0)
    with pytest.raises(PermanentError, match=r"rights: ada may not list trainingjobs.*lab, watch"):
        await rights.confirm(cast(Client, judge), NEEDED)
    assert rights.BELIEVED_S <= now_s() < rights.BELIEVED_S + 2.0


async def test_however_many_rights_are_missing_the_sentence_is_short() -> None:
    with pytest.raises(PermanentError) as refusal:
        await rights.confirm(cast(Client, Judge(knows_s=1.0)), NEEDED, believed_s=0.0)
    assert f"in namespace lab, and {len(NEEDED) - rights.SAID} more. Apply the" in str(
        refusal.value
    )


async def test_where_nobody_may_ask_nothing_is_known() -> None:
    judge = Judge(knows_s=1_000.0, closed=True)
    with pytest.raises(rights.Unasked):
        await rights.confirm(cast(Client, judge), NEEDED)
    assert now_s() >= rights.BELIEVED_S


async def test_a_server_that_does_not_answer_has_refused_nothing() -> None:
    with pytest.raises(Unreachable):
        await rights.confirm(cast(Client, Away()), NEEDED, believed_s=0.0)
