"""The Redis where ranks meet: whether it answers, as their first node sees it."""

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis_server import redis_server

from holdfast.executor import meeting, rendezvous
from holdfast.executor.adapters.redis_silence import place, silence
from holdfast.executor.core import events as ev
from holdfast.executor.core.actions import HostRendezvous
from holdfast.executor.spawner import Spawner

URL = "redis://h:6379/0"


@asynccontextmanager
async def answering(reply: bytes | None, path: str) -> AsyncIterator[str]:
    """Who answers so to whatever comes; None: nothing, and it stays."""

    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        if reply is None:
            await reader.read()
        writer.write(reply or b"")
        writer.close()
        await writer.wait_closed()
        left.set()

    server = await asyncio.start_unix_server(serve, path)
    async with server:
        yield f"unix://{path}"
        await left.wait()


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (b"+PONG\r\n", ""),
        (b"-NOAUTH Authentication required.\r\n", ""),
        (b"-LOADING Redis is loading the dataset in memory\r\n", "it loads what it keeps"),
        (b"", "it closes the connection"),
        (None, "no answer within 0.2 s"),
    ],
)
async def test_what_counts_as_an_answer(reply: bytes | None, why: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with answering(reply, f"{folder}/redis") as url:
            assert await silence(url, within_s=0.2) == why
        assert await silence(f"unix://{folder}/none") == "No such file or directory"


async def test_a_real_one_answers_stands_still_and_is_gone() -> None:
    import redis as client

    with redis_server() as server:
        assert await silence(server.url) == ""
        with client.Redis.from_url(server.url) as seen:
            pid = int(seen.info("server")["process_id"])
        os.kill(pid, signal.SIGSTOP)
        try:
            assert await silence(server.url, within_s=0.2) == "no answer within 0.2 s"
        finally:
            os.kill(pid, signal.SIGCONT)
        server.stop()
        assert await silence(server.url) == "Connection refused"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h/0", "h:6379"),
        ("rediss://u@h:7/1", "h:7"),
        ("redis://[::1]:7/0", "[::1]:7"),
        ("unix:///run/redis", "/run/redis"),
    ],
)
def test_a_server_is_named_without_what_else_the_url_says(url: str, shown: str) -> None:
    assert place(url) == shown


def looks(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[Any]:
    """What is told while it answers so, look after look."""
    left = iter(answers)

    async def look(_url: str) -> str:
        try:
            return next(left)
        except StopIteration:
            raise asyncio.CancelledError from None

    monkeypatch.setattr(meeting, "silence", look)
    monkeypatch.setattr(meeting, "LOOK_S", 0)
    monkeypatch.setattr(meeting, "EVERY_S", 0)
    return []


def said(told: list[Any]) -> list[tuple[str, str]]:
    assert all((each.job, each.epoch) == ("job", 3) for each in told)
    return [(type(each).__name__, each.why) for each in told]


AWAY = "the Redis at h:6379 where ranks meet does not answer (gone)"


async def test_ranks_are_held_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    told = looks(monkeypatch, "gone", "gone", "gone", "")
    await meeting.awaited(told.append, "job", 3, URL)
    lacks, away, there, back = said(told)
    assert lacks[0] == "RoomLacked"
    assert lacks[1].startswith(f"{AWAY}. Start it again")
    assert away == ("MeetingLooked", AWAY)
    assert (there, back) == (("RoomLacked", ""), ("MeetingLooked", ""))


async def test_one_look_in_vain_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    told = looks(monkeypatch, "gone", "")
    await meeting.awaited(told.append, "job", 3, URL)
    assert [why for kind, why in said(told) if kind == "MeetingLooked"] == [""]


async def test_while_they_run_it_is_told_once_that_it_is_away_and_once_that_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = looks(monkeypatch, "", "gone", "", "gone", "gone", "gone", "", "", "gone", "gone")
    with pytest.raises(asyncio.CancelledError):
        await meeting.watched(told.append, "job", 3, URL)
    assert [why for _, why in said(told)] == [AWAY, "", AWAY]


async def test_a_rendezvous_is_not_told_of_before_it_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = looks(monkeypatch, "gone", "")
    hosts = rendezvous.RendezvousHost(Spawner.__new__(Spawner), "127.0.0.1", told.append)

    async def none(_self: Spawner) -> bool:
        return False

    monkeypatch.setattr(Spawner, "uses_torch", none)
    await hosts.start(HostRendezvous(job="job", epoch=3, logs=str(tmp_path), meets=URL))
    assert [type(each) for each in told] == [
        ev.RoomLacked,
        ev.RoomLacked,
        ev.MeetingLooked,
        ev.RendezvousListening,
    ]
