"""A page that was made for one person is given to others only where they may see the same."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from starlette.datastructures import URL

from holdfast.driver.adapters.page.asked import Asked, alike
from holdfast.driver.adapters.page.crowd import Crowd
from holdfast.driver.adapters.page.safety import Session
from holdfast.kit.clock import SystemClock


def who(token: str, crowd: Crowd, sequence: int = 1) -> Asked:
    state = SimpleNamespace(crowd=crowd)
    request = SimpleNamespace(app=SimpleNamespace(state=state), url=URL("http://x/jobs/speech"))
    facts = SimpleNamespace(sequence=sequence)
    return Asked(cast(Any, request), cast(Any, facts), Session(token, ""))


async def test_who_has_another_token_gets_a_page_of_his_own() -> None:
    crowd, made = Crowd(SystemClock()), list[str]()

    async def make(asked: Asked) -> str:
        made.append(asked.token)
        return f"what {asked.token} may see"

    page = alike(make)
    bodies = [(await page(who(token, crowd))).body for token in ("ann", "bob", "ann")]
    assert bodies == [b"what ann may see", b"what bob may see", b"what ann may see"]
    assert made == ["ann", "bob"], "once each"
    await page(who("ann", crowd, sequence=2))
    assert made == ["ann", "bob", "ann"], "after an event anew"


async def test_who_leaves_takes_the_page_from_nobody() -> None:
    crowd, ready = Crowd(SystemClock()), asyncio.Event()

    async def make(asked: Asked) -> str:
        await ready.wait()
        return "made"

    page = alike(make)
    first = asyncio.create_task(page(who("ann", crowd)))
    other = asyncio.create_task(page(who("ann", crowd)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    ready.set()
    assert (await other).body == b"made"
