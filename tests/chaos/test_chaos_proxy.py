"""The way between a driver and its API server: passes on, or answers badly, late or never."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, suppress
from itertools import chain, count
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import test_utils, web
from waiting import DEADLINE_S, eventually_async

from holdfast.lab.kubernetes import proxy
from holdfast.lab.kubernetes.proxy import Answered, Mood, Proxy, counted, turn

ASKED = 30
"""Times: by then each way of a bad day was there."""


class Way:
    """A proxy, and what the server behind it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.heard: list[str] = []
        self._up = AsyncExitStack()

    async def open(self) -> None:
        async def hear(request: web.Request) -> web.Response:
            self.heard.append(request.path)
            return web.Response(text="done")

        self._client = await self._up.enter_async_context(aiohttp.ClientSession())
        behind = await self._serve(hear)
        self.proxy = Proxy(behind, self.folder, self._client)
        self._url = await self._serve(self.proxy.handle)

    async def _serve(self, handler: web.RequestHandler) -> str:  # type: ignore[type-arg]
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", handler)  # type: ignore[arg-type]
        server = test_utils.TestServer(application, handler_cancellation=True)
        await self._up.enter_async_context(server)
        return str(server.make_url("")).rstrip("/")

    async def ask(self, path: str) -> int | None:
        """The status of the answer; None where none came in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DEADLINE_S), self._client.get(self._url + path) as answer:
                return answer.status
        return None

    async def close(self) -> None:
        await self._up.aclose()


@pytest.fixture
async def way(tmp_path: Path) -> AsyncIterator[Way]:
    made = Way(tmp_path)
    await made.open()
    yield made
    await made.close()


async def test_as_it_stands_it_passes_on(way: Way) -> None:
    assert await way.ask("/api") == 200
    assert way.heard == ["/api"]
    assert counted(way.folder) == Answered()


async def test_in_a_bad_mood_it_answers_itself(way: Way) -> None:
    turn(way.folder, Mood(bad_share=1.0))
    assert {await way.ask("/api") for _ in range(ASKED)} <= {429, 500, 502}
    assert way.heard == []
    assert counted(way.folder) == Answered(bad=ASKED)


async def test_in_a_slow_mood_what_is_asked_is_done_late_or_unheard_or_never(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "LATE_S", 0.05)
    turn(way.folder, Mood(slow_share=1.0))
    asking = {f"/{number}": asyncio.create_task(way.ask(f"/{number}")) for number in range(ASKED)}

    def answered() -> set[str]:
        return {path for path, task in asking.items() if task.done() and task.result() == 200}

    def all_is_done() -> bool:
        count = counted(way.folder)
        return count.late + count.never == ASKED and count.late == len(answered())

    await eventually_async(all_is_done, "whoever is answered late has it")
    assert answered()
    await eventually_async(
        lambda: answered() < {*way.heard}, "some were done, and nobody heard of it"
    )
    late = len(answered())
    await over(asking.values())
    assert {*way.heard} < {*asking}, "some were never done"
    assert counted(way.folder) == Answered(late=late, never=ASKED - late)


async def over(asking: Iterable["asyncio.Task[int | None]"]) -> None:
    """Whoever still waits for an answer gives up."""
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)


async def test_a_share_of_both_leaves_the_rest_alone(way: Way) -> None:
    turn(way.folder, Mood(bad_share=0.5))
    answers = [await way.ask("/api") for _ in range(ASKED)]
    assert answers.count(200) == len(way.heard)
    assert 0 < len(way.heard) < ASKED
    assert counted(way.folder) == Answered(bad=ASKED - len(way.heard))


async def test_one_that_was_stopped_says_for_how_long(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock goes on, and it does not: that of a process that is continued after a while."""
    shown_s = chain([0.0, 0.1, 0.1, 25.2], count(25.2, 0.01))
    monkeypatch.setattr(proxy, "LOOK_S", 0.01)
    monkeypatch.setattr(proxy, "time", SimpleNamespace(monotonic=lambda: next(shown_s)))
    noticing = asyncio.create_task(way.proxy.notice_pauses())
    try:
        await eventually_async(lambda: counted(way.folder).longest_pause_s > 20, "it says so")
        assert counted(way.folder).longest_pause_s == pytest.approx(25.1, abs=0.1)
    finally:
        noticing.cancel()
