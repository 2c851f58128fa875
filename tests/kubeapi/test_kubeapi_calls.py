"""Calls of the client against a server that fails: every answer is its own error, in a sentence."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from api_clients import client_of, kubeconfig
from fake_apiserver import PATH, FakeApiServer, OnCall, serving
from waiting import eventually_async

from holdfast.driver.ports import PermanentError, TemporaryError
from holdfast.kit.acting import acting_on
from holdfast.kubeapi import errors, paths
from holdfast.kubeapi.client import Client


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with serving(FakeApiServer()) as running:
        yield running


@pytest.fixture
async def client(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[Client]:
    async with client_of(server, tmp_path) as entered:
        yield entered


@pytest.mark.parametrize(
    ("fault", "error", "says"),
    [
        (OnCall.GONE, errors.Gone, "said 410"),
        (OnCall.BUSY, errors.TooMany, "said 429"),
        (OnCall.BROKEN, errors.Unavailable, "said 500"),
        (OnCall.PROXY, errors.Unavailable, "answered 502 with 33 bytes of text/html"),
        (OnCall.LIE, errors.Malformed, "answered what is no object"),
        (OnCall.CUT, errors.Unreachable, "disconnected"),
    ],
)
async def test_each_answer_is_an_error_of_its_own_that_names_the_call(
    server: FakeApiServer, client: Client, fault: OnCall, error: type[Exception], says: str
) -> None:
    server.on_calls += [fault, fault]  # aiohttp tries a GET again on a kept connection
    with pytest.raises(error, match=f"GET {PATH}.*{says}") as raised:
        await client.get(PATH)
    assert isinstance(raised.value, TemporaryError)


async def test_whatever_is_written_is_written_by_one_manager_of_fields(
    server: FakeApiServer, client: Client
) -> None:
    """Each User-Agent would be one else, and ours says what is being done."""
    for write in (client.create, client.replace, client.patch):
        with acting_on("entry=7 Distrust node-1"), contextlib.suppress(Exception):
            await write(PATH, {})
    managers = {request.query.get("fieldManager") for request in server.requests}
    assert (len(server.requests), managers) == (3, {"holdfast"})


async def test_what_changes_something_waits_for_leave_and_what_only_asks_does_not(
    server: FakeApiServer, client: Client
) -> None:
    leave = asyncio.Event()

    async def given() -> None:
        await leave.wait()

    client.ask_before_changes(given)
    await client.get(PATH)
    await client.ask(PATH, {"metadata": {"name": "asked"}})
    waiting = asyncio.create_task(client.create(PATH, {"metadata": {"name": "made"}}))
    await client.get(PATH)
    assert not waiting.done()
    leave.set()
    await waiting


async def test_a_call_that_is_never_answered_ends_in_the_stated_time(
    server: FakeApiServer, tmp_path: Path
) -> None:
    server.on_calls.append(OnCall.HANG)
    async with client_of(server, tmp_path, answer_within_s=0.1) as client:
        with pytest.raises(errors.Unreachable, match="no answer in time"):
            await client.get(PATH)


async def test_nobody_at_the_address_is_unreachable(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:9", token="t")
    async with Client.from_kubeconfig(path, user_agent="holdfast/test") as client:
        with pytest.raises(errors.Unreachable, match=r"127\.0\.0\.1"):
            await client.get(PATH)


async def test_a_token_that_was_renewed_in_its_file_is_read_again_once_it_is_refused(
    server: FakeApiServer, client: Client, tmp_path: Path
) -> None:
    await client.get(PATH)
    server.token = "second"
    (tmp_path / "token").write_text("second")
    await asyncio.gather(*(client.get(PATH) for _ in range(5)))
    asked = [request.headers["Authorization"] for request in server.requests]
    assert asked.count("Bearer second") == 5


async def test_a_token_that_is_refused_and_not_renewed_is_unauthorized_after_one_try(
    server: FakeApiServer, client: Client
) -> None:
    server.token = "nobody has this"
    with pytest.raises(errors.Unauthorized):
        await client.get(PATH)
    assert len(server.requests) == 1


async def test_credentials_that_cannot_be_read_for_a_moment_are_kept_and_read_again(
    server: FakeApiServer, client: Client, tmp_path: Path
) -> None:
    server.token = "second"
    (tmp_path / "token").write_text("")
    with pytest.raises(errors.Unauthorized):
        await client.get(PATH)
    config = tmp_path / "kubeconfig"
    said = config.read_text()
    config.write_text("half: [")
    with pytest.raises(errors.Unauthorized):
        await client.get(PATH)
    config.write_text(said)
    (tmp_path / "token").write_text("second")
    await client.get(PATH)
    assert "Authorization" in server.requests[0].headers
    assert all(each.headers["Authorization"] for each in server.requests)


async def test_leave_is_asked_for_last_for_a_held_call_may_have_waited_long(
    server: FakeApiServer, client: Client
) -> None:
    asked_at: list[float] = []

    async def given() -> None:
        asked_at.append(asyncio.get_running_loop().time())

    client.ask_before_changes(given)
    server.on_calls.append(OnCall.BUSY)
    server.retry_after = "1"
    before_s = asyncio.get_running_loop().time()
    with pytest.raises(errors.TooMany):
        await client.get(PATH)
    await client.create(PATH, {"metadata": {"name": "made"}})
    assert asked_at[0] - before_s > 0.9


async def test_a_429_holds_the_calls_after_it_until_the_server_wants_them(
    server: FakeApiServer, client: Client
) -> None:
    server.on_calls.append(OnCall.BUSY)
    server.retry_after = "1"
    before_s = asyncio.get_running_loop().time()
    with pytest.raises(errors.TooMany) as raised:
        await client.get(PATH)
    assert raised.value.retry_after_s == 1.0
    await client.get(PATH)
    assert asyncio.get_running_loop().time() - before_s > 0.9


async def test_a_disruption_budget_that_says_no_to_one_eviction_holds_nobody_else(
    server: FakeApiServer, client: Client
) -> None:
    server.on_calls.append(OnCall.BUSY)
    server.retry_after, server.causes = "30", [{"reason": "DisruptionBudget"}]
    with pytest.raises(errors.TooMany) as raised:
        await client.get(PATH)
    assert raised.value.causes == ("DisruptionBudget",)
    async with asyncio.timeout(10):
        await client.get(PATH)


async def test_the_user_agent_says_for_which_effect_of_which_term_it_is(
    server: FakeApiServer, client: Client
) -> None:
    with acting_on("term=3 entry=7 Allocate node-1"):
        await client.get(PATH)
    said = server.requests[0].headers["User-Agent"]
    assert said == "holdfast/test (term=3 entry=7 Allocate node-1)"


async def test_a_call_on_behalf_of_a_person_has_their_token_and_never_becomes_ours(
    server: FakeApiServer, client: Client
) -> None:
    async with client.on_behalf_of("theirs") as theirs:
        with pytest.raises(errors.Unauthorized):
            await theirs.get(PATH)
    assert [request.headers["Authorization"] for request in server.requests] == ["Bearer theirs"]
    with pytest.raises(PermanentError, match="no bearer token"):
        client.on_behalf_of("theirs\r\nX-Remote-User: admin")


async def test_a_list_comes_in_pages_of_one_moment_with_the_kind_of_each_item(
    server: FakeApiServer, client: Client
) -> None:
    for name in "abcde":
        server.put(name)
    pages = []
    async for page in client.pages(PATH, limit=2):
        pages.append([item["metadata"]["name"] for item in page["items"]])
        assert {(item["apiVersion"], item["kind"]) for item in page["items"]} == {("v1", "Pod")}
        server.put("late")
    assert pages == [["a", "b"], ["c", "d"], ["e"]]


async def test_a_hundred_watches_leave_calls_their_connections(
    server: FakeApiServer, client: Client
) -> None:
    async def watch() -> None:
        async for _ in client.watch(PATH, since=str(server.version), quiet_s=60, lasting_s=60):
            pass

    watches = [asyncio.create_task(watch()) for _ in range(100)]
    await eventually_async(lambda: len(server.requests) == 100, "all watches are there")
    async with asyncio.timeout(10):
        await client.get(PATH)
    for each in watches:
        each.cancel()
    await asyncio.gather(*watches, return_exceptions=True)


@pytest.mark.parametrize("name", ["../nodes/n1", "..", "a/b", "a%2fb"])
def test_a_name_that_would_be_another_path_is_refused(name: str) -> None:
    with pytest.raises(PermanentError, match="no object is called that"):
        paths.pods("default", name)


def test_a_kubeconfig_that_cannot_be_used_says_so_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("clusters: []\n")
    for path in (tmp_path / "broken", tmp_path / "missing"):
        with pytest.raises(PermanentError, match=f"{path} cannot be used"):
            asyncio.run(Client.from_kubeconfig(path, user_agent="x").__aenter__())


@pytest.mark.parametrize(("except_for", "by_proxy"), [("", True), ("api.test", False)])
async def test_the_proxy_that_the_environment_names_is_asked_but_for_the_hosts_that_it_excepts(
    server: FakeApiServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    except_for: str,
    by_proxy: bool,
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", except_for)
    path = kubeconfig(tmp_path, "http://api.test:9", token=server.token)
    async with Client.from_kubeconfig(path, user_agent="holdfast/test") as client:
        with contextlib.suppress(errors.Unreachable):
            await client.get(PATH)
    assert [request.headers["Host"] for request in server.requests] == ["api.test:9"] * by_proxy


async def test_a_call_takes_no_thread(
    server: FakeApiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.get(PATH)
    handed: list[object] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "run_in_executor", lambda *work: handed.append(work))
    await client.get(PATH)
    assert handed == []


def test_where_the_definition_is_not_installed_that_is_said_with_the_command_that_does_it() -> None:
    at, body = "/apis/holdfast.dev/v1alpha1/trainingjobs", b"404 page not found\n"
    error = errors.error_of_answer(f"GET {at}", 404, {"Content-Type": "text/plain"}, body)
    assert isinstance(error, errors.NotServed)
    assert str(error) == f"{errors.NO_DEFINITION} {errors.INSTALL}"
    other = errors.error_of_answer("GET /api/v1/pods", 404, {}, body)
    assert not isinstance(other, errors.NotServed)


def test_what_the_server_said_is_told_without_what_was_asked() -> None:
    body = b'{"kind": "Status", "message": "pods \\"a-0-1\\" is forbidden: exceeded quota: small"}'
    error = errors.error_of_answer("POST /api/v1/namespaces/lab/pods", 403, {}, body)
    assert error.said == "exceeded quota: small"
