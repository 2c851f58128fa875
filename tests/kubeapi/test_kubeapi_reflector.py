"""The reflector and each fault by itself: what is seen, what it costs, what it says of itself."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from api_clients import client_of
from fake_apiserver import PATH, FakeApiServer, OnCall, OnWatch, serving
from told import Told, told_by
from waiting import DEADLINE_S, eventually_async

from holdfast.kubeapi.client import Client
from holdfast.kubeapi.reflector import Reflector


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with serving(FakeApiServer()) as running:
        for name in "abcde":
            running.put(name)
        yield running


@pytest.fixture
async def client(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[Client]:
    """One that is patient, for lists are counted."""
    async with client_of(server, tmp_path) as entered:
        yield entered


@pytest.fixture
def reflector(client: Client) -> Reflector:
    return Reflector(client, PATH, page=2, quiet_s=DEADLINE_S, wait_cap_s=0.02)


async def same(server: FakeApiServer, told: Told) -> None:
    """Wait until what was told is what the server has."""
    await eventually_async(
        lambda: said(told.live) == said({f"default/{n}": o for n, o in server.objects.items()}),
        f"told {sorted(told.live)}, there {sorted(server.objects)}",
    )


def said(objects: dict[str, dict[str, Any]]) -> dict[str, tuple[str, int]]:
    return {key: (each["metadata"]["uid"], each["spec"]["said"]) for key, each in objects.items()}


async def test_a_list_is_read_in_pages_and_watched_from_its_moment(
    server: FakeApiServer, reflector: Reflector
) -> None:
    assert reflector.away() == "not listed yet"
    async with told_by(reflector) as told:
        await same(server, told)
        server.put("f")
        server.delete("a")
        await same(server, told)
        assert (reflector.lists, told.synced, reflector.away()) == (1, 1, "")
        assert reflector.store == told.live
        assert "managedFields" not in str(reflector.store)
    assert [request.query.get("limit") for request in server.requests] == ["2", "2", "2", None]


@pytest.mark.parametrize("fault", OnCall)
async def test_a_list_that_fails_on_its_second_page_is_begun_again(
    server: FakeApiServer, tmp_path: Path, fault: OnCall
) -> None:
    async with (
        client_of(server, tmp_path, answer_within_s=0.5) as client,
        told_by(Reflector(client, PATH, page=2, quiet_s=5.0, wait_cap_s=0.02)) as told,
    ):
        await eventually_async(lambda: told.live, "the first page")
        server.on_calls += [fault, fault]
        server.cut()
        server.compact()  # the next watch is told 410, so that a list is due
        server.delete("c")
        await same(server, told)
        assert not server.on_calls


@pytest.mark.parametrize("fault", OnWatch)
async def test_a_watch_that_fails_loses_nothing(
    server: FakeApiServer, client: Client, fault: OnWatch
) -> None:
    reflector = Reflector(client, PATH, page=2, quiet_s=0.5, wait_cap_s=0.02)
    async with told_by(reflector) as told:
        await same(server, told)
        server.on_watches.append(fault)
        server.put("f")
        server.put("a")
        server.delete("b")
        server.delete("c")
        server.put("c")
        server.put("g")
        server.delete("g")
        await same(server, told)
        await eventually_async(lambda: not server.on_watches, "the fault has been")
        server.put("last")
        await same(server, told)


@pytest.mark.parametrize("fault", [OnWatch.CUT, OnWatch.END, OnWatch.HALF_CLOSE, OnWatch.FORBIDDEN])
async def test_a_watch_that_is_lost_goes_on_without_a_list(
    server: FakeApiServer, reflector: Reflector, fault: OnWatch
) -> None:
    async with told_by(reflector) as told:
        await same(server, told)
        server.on_watches.append(fault)
        server.put("f")
        await same(server, told)
        await eventually_async(lambda: reflector.watches == 2, "a second watch")
        assert reflector.lists == 1


async def test_what_went_while_nobody_watched_and_history_was_forgotten_is_told_to_be_gone(
    server: FakeApiServer, reflector: Reflector
) -> None:
    async with told_by(reflector) as told:
        await same(server, told)
        server.delete("a")
        server.delete("b")
        server.put("b")  # another of the same name
        server.compact()
        server.cut()
        await same(server, told)
        assert (len(told.ended), reflector.lists) == (2, 2)


async def test_a_server_without_bookmarks_is_silent_and_listed_again(
    server: FakeApiServer, client: Client
) -> None:
    server.bookmarks = False
    reflector = Reflector(client, PATH, quiet_s=0.2, wait_cap_s=0.02)
    async with told_by(reflector) as told:
        await same(server, told)
        await eventually_async(lambda: "not even a bookmark" in reflector.away(), "it says so")
        await eventually_async(lambda: reflector.lists >= 2, "a second list")
        server.bookmarks = True
        await eventually_async(lambda: not reflector.away(), "it is heard again")


async def test_a_store_that_was_set_back_is_believed_though_its_versions_are_used_again(
    server: FakeApiServer, client: Client
) -> None:
    reflector = Reflector(client, PATH, quiet_s=0.2, wait_cap_s=0.02)
    backup = server.version
    async with told_by(reflector) as told:
        await same(server, told)
        server.put("b")
        server.put("late")
        await same(server, told)
        del server.objects["late"]
        server.set_back(backup)
        server.put("b")  # the version that "b" had, and another content
        await same(server, told)


async def test_a_server_that_answers_every_watch_with_410_is_not_asked_without_pause(
    server: FakeApiServer, client: Client
) -> None:
    server.on_watches.extend([OnWatch.GONE] * 10_000)
    reflector = Reflector(client, PATH, wait_cap_s=0.3)
    async with told_by(reflector):
        begun_s = asyncio.get_running_loop().time()
        await eventually_async(lambda: reflector.lists >= 15, "15 lists")
    took_s = asyncio.get_running_loop().time() - begun_s
    assert took_s > 0.5, "14 waits of .14 s on average"


async def test_what_is_not_allowed_is_said_and_asked_for_again(
    server: FakeApiServer, client: Client
) -> None:
    reflector = Reflector(client, "/api/v1/nothing", wait_cap_s=0.02)
    async with told_by(reflector):
        await eventually_async(lambda: "said 404" in reflector.away(), "it says so")
        await eventually_async(lambda: reflector.lists > 2, "it tries again")
