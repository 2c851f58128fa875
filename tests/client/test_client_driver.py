"""Both clients against a driver that runs: found by themselves, lost, killed and started anew."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cuttable import cuttable
from running_driver import DriverProcess

import holdfast
from holdfast.client import AsyncClient, Client, Event, HoldfastError, NotReachable, Refused

JOB: dict[str, Any] = {
    "metadata": {"name": "speech", "labels": {"team": "speech"}},
    "spec": {"nodes": 4, "command": ["python", "train.py"], "workdir": "/"},
}


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[DriverProcess]:
    made = DriverProcess(tmp_path / "state")
    await made.start()
    yield made
    made.end()


@pytest.fixture
def client(process: DriverProcess, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setenv("HOLDFAST_STATE", str(process.paths.root))
    return holdfast.Client()


async def test_a_job_is_submitted_looked_at_and_stopped(
    client: Client, process: DriverProcess
) -> None:
    assert client.readiness().ready
    done = client.submit(JOB)
    assert done.name == "speech"
    job = client.job("speech")
    assert (job.phase, job.labels) == ("Pending", {"team": "speech"})
    assert [each.name for each in client.jobs(label=["team=speech"])] == ["speech"]
    assert client.jobs(name="other*") == []
    assert client.incidents() == []
    assert client.progress("speech") is None
    assert client.why("speech").subject == "speech"
    assert client.story("speech").lines
    assert client.nodes() == []
    assert client.stop("speech").sequence > done.sequence
    assert client.job("speech").phase == "Stopped"
    assert client.healthz() == "ok\n"


async def test_every_page_of_a_list_is_read(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        client.submit({**JOB, "metadata": {"name": f"job-{number}"}})
    assert len(client.jobs_page(limit=2).items) == 2
    monkeypatch.setattr(client, "jobs_page", partial(client.jobs_page, limit=1))
    assert [each.name for each in client.jobs()] == ["job-0", "job-1", "job-2"]


async def test_errors_have_the_sentence_and_what_to_do(client: Client) -> None:
    with pytest.raises(Refused) as none:
        client.job("nobody")
    assert none.value.status == 404
    assert "there is no job 'nobody'." in str(none.value)
    with pytest.raises(Refused) as bad:
        client.submit({**JOB, "spec": {"nodes": 0}})
    assert {each.field for each in bad.value.mistakes} >= {"spec.nodes", "spec.command"}
    assert "spec.nodes" in str(bad.value)


async def test_no_token_is_shown(client: Client, process: DriverProcess) -> None:
    token = process.paths.user_token.read_text().strip()
    both = [client, AsyncClient(state=process.paths.root)]
    assert not any(token in f"{each!r} {each}" for each in both)
    assert repr(client).startswith("Client('http://127.0.0.1:")


async def test_a_wrong_token_is_refused(client: Client, process: DriverProcess) -> None:
    url = client._driver.url
    with pytest.raises(Refused) as refused:
        Client(url, token="x" * 30).jobs()
    assert refused.value.status == 401


def test_where_no_driver_is_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_STATE", raising=False)
    with pytest.raises(NotReachable, match="no driver is running here"):
        Client()


async def test_a_job_is_followed_to_its_end(client: Client) -> None:
    client.submit(JOB)
    client.submit({**JOB, "metadata": {"name": "other"}})
    client.stop("speech")
    events = await asyncio.to_thread(list, client.follow("speech"))
    assert [each.kind for each in events] == ["JobSubmitted", "StopRequested"]
    again = await asyncio.to_thread(list, client.follow("speech", after=events[0].sequence))
    assert again == events[1:]


def taken(following: Iterator[Event], count: int) -> list[Event]:
    return [next(following) for _ in range(count)]


async def test_following_goes_on_when_the_driver_is_killed_and_nothing_comes_twice(
    client: Client, process: DriverProcess
) -> None:
    following = iter(client.follow())
    client.submit(JOB)
    seen = await asyncio.to_thread(taken, following, 2)
    process.end(signal.SIGKILL)
    await process.start()
    Client().submit({**JOB, "metadata": {"name": "later"}})
    while not any(each.jobs == ("later",) for each in seen):
        seen += await asyncio.to_thread(taken, following, 1)
    numbers = [each.sequence for each in seen]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_following_bears_a_connection_that_is_cut(
    process: DriverProcess, client: Client
) -> None:
    port = int(client._driver.url.rpartition(":")[2])
    async with cuttable("127.0.0.1", port) as relay:
        token = process.paths.user_token.read_text().strip()
        through = Client(f"http://127.0.0.1:{relay.at_port}", token=token)
        following = iter(through.follow())
        first = await asyncio.to_thread(taken, following, 1)
        relay.drop()
        client.submit(JOB)
        later = await asyncio.to_thread(taken, following, 1)
    assert [each.sequence for each in first + later] == [1, 2]


async def test_who_follows_a_driver_that_stays_away_is_told(
    client: Client, process: DriverProcess
) -> None:
    following = client.follow(away_s=0.0)
    await asyncio.to_thread(next, following)
    process.end()
    with pytest.raises(HoldfastError):
        await asyncio.to_thread(list, following)


async def test_following_ends_when_it_is_closed(client: Client) -> None:
    following = client.follow()
    await asyncio.to_thread(next, following)
    rest = asyncio.create_task(asyncio.to_thread(list, following))
    following.close()
    assert await rest == []


async def test_the_same_can_be_awaited(process: DriverProcess) -> None:
    client = AsyncClient(state=process.paths.root)
    assert (await client.readiness()).ready
    await client.submit(JOB)
    kinds = []
    async for event in client.follow():
        kinds.append(event.kind)
        if event.kind == "JobSubmitted":
            break
    assert kinds[-1] == "JobSubmitted"
    assert [each.name for each in await client.jobs()] == ["speech"]
    await client.stop("speech")
    phases = [each.phase async for each in client.watch("speech")]
    assert phases == ["Stopped"]
    with pytest.raises(Refused):
        await client.job("nobody")
