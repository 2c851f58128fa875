"""Drivers as processes on one PostgreSQL: replaced, stopped and woken, in waiting, cut off."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from cuttable import Cuttable
from ports import free_port
from postgres import Postgres
from running_driver import DriverProcess
from sharing_drivers import MakeDriver
from starlette.applications import Starlette
from waiting import DEADLINE_S, LOOK_S, eventually_async
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from holdfast.cli.client import Client, path
from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.adapters.sql.postgres import open_postgres
from holdfast.driver.core.effects import Allocate
from holdfast.driver.lead.standby import STEP_DOWN_S, stand_by
from holdfast.driver.main import main
from holdfast.driver.ports import Entry
from holdfast.driver.serve.server import Server
from holdfast.protocol import exitcodes, keeping
from holdfast.protocol.leading import leader_of

pytestmark = pytest.mark.slow


class Keeper:
    """A keeper of one node, which notes who was given it."""

    def __init__(self) -> None:
        self.allocated: list[str] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError), closing(writer):
            head = await reader.readexactly(keeping.LENGTH.size)
            said = keeping.request_of(await reader.readexactly(keeping.body_length(head)))
            if isinstance(said, keeping.WatchFacts):
                writer.write(keeping.frame(keeping.NodeFact(node="node-1", rack="r")))
                await reader.read()  # until the driver hangs up
            elif isinstance(said, keeping.Allocate):
                self.allocated.append(said.job)
            writer.write(keeping.frame(keeping.Done()))


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[Keeper]:
    made = Keeper()
    async with await asyncio.start_unix_server(made.answer, tmp_path / "keeper.sock"):
        yield made


@pytest.fixture
def journal(postgres: Postgres, database: str) -> Iterator[SqlJournal]:
    """To look into, beside the drivers."""
    opened = open_postgres(postgres.url(database))
    yield opened
    opened.close()


async def submit(driver: DriverProcess, job: str) -> httpx.Response:
    document = {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": job},
        "spec": {"nodes": 1, "ranksPerNode": 1, "command": ["train"]},
    }
    headers = {"Authorization": f"Bearer {driver.paths.user_token.read_text().strip()}"}
    async with httpx.AsyncClient(
        trust_env=False, verify=False, headers=headers, timeout=60
    ) as client:
        return await client.post(f"{_url(driver)}/v1alpha1/jobs", json=document)


async def ready(driver: DriverProcess) -> dict[str, Any]:
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=60) as client:
        said: dict[str, Any] = (await client.get(f"{_url(driver)}/readyz")).json()
    return said


def _url(driver: DriverProcess) -> str:
    url: str = json.loads(driver.paths.address.read_text())["http"]
    return url


async def entries(journal: SqlJournal) -> list[Entry]:
    return await asyncio.to_thread(journal.entries)


async def committed(journal: SqlJournal, found: Callable[[Entry], bool]) -> None:
    """Return once there is such an entry."""
    async with asyncio.timeout(DEADLINE_S):
        while not any(map(found, await entries(journal))):
            await asyncio.sleep(LOOK_S)


async def readiness(driver: DriverProcess, is_ready: bool) -> str:
    """What it says why, once it is ready or is not."""
    async with asyncio.timeout(DEADLINE_S):
        while (said := await ready(driver))["ready"] is not is_ready:
            await asyncio.sleep(LOOK_S)
    return str(said["why"])


async def test_a_leader_that_is_stopped_between_commit_and_effect_ends_when_it_wakes(
    sharing: MakeDriver,
    postgres: Postgres,
    relay: Cuttable,
    keeper: Keeper,
    journal: SqlJournal,
) -> None:
    old, new = sharing("old", relay.at_port), sharing("new", postgres.port)
    await old.start()
    await committed(journal, lambda each: "node-1" in each.nodes)
    relay.hold_answers(rb'"held".*COMMIT')
    asking = asyncio.create_task(submit(old, "held"))
    await relay.holds.wait()
    await committed(journal, lambda each: "held" in each.jobs)
    assert old.process is not None
    os.kill(old.process.pid, signal.SIGSTOP)
    assert keeper.allocated == [], "it was stopped before it did what it had committed"

    await new.start()
    await eventually_async(lambda: keeper.allocated == ["held"])

    relay.release()
    os.kill(old.process.pid, signal.SIGCONT)
    assert await asyncio.to_thread(old.process.wait, 60) == exitcodes.TRY_AGAIN
    assert (
        "another driver has taken over with term 2, so this one, of term 1" in old.log.read_text()
    )
    with suppress(httpx.HTTPError):
        await asking
    assert (await ready(new))["ready"]
    assert (await submit(new, "next")).status_code == 201
    written = await entries(journal)
    assert [each.sequence for each in written] == list(range(1, len(written) + 1))
    terms = [each.term for each in written]
    assert terms == sorted(terms)
    ordered = [each for each in written if any(isinstance(e, Allocate) for e in each.effects)]
    assert [each.term for each in ordered] == [1, 2], "the new one ordered it anew, in its own term"
    assert new.end() == exitcodes.OK


async def test_a_driver_goes_on_when_its_database_was_away_and_says_so_meanwhile(
    sharing: MakeDriver, postgres: Postgres, keeper: Keeper
) -> None:
    one = sharing("one", postgres.port)
    address = await one.start()
    assert (await submit(one, "before")).status_code == 201
    await asyncio.to_thread(postgres.stop)
    try:
        assert "the database is away" in await readiness(one, False)
        refused = await submit(one, "meanwhile")
        assert refused.status_code == 503
        assert "the database is away" in refused.json()["detail"]
    finally:
        await asyncio.to_thread(postgres.start)
    await readiness(one, True)
    assert (await submit(one, "after")).status_code == 201
    assert json.loads(one.paths.address.read_text()) == address, "the same process"
    assert one.end() == exitcodes.OK


async def test_without_its_database_a_driver_does_not_start_and_says_why(
    sharing: MakeDriver, relay: Cuttable
) -> None:
    await relay.cut()
    one = sharing("one", relay.at_port)
    assert await asyncio.to_thread(one.spawn().wait, 60) == exitcodes.TRY_AGAIN
    assert "journal: the database is away" in one.log.read_text()
    assert not one.paths.address.exists()


async def test_the_password_of_the_database_is_written_nowhere(
    sharing: MakeDriver, postgres: Postgres
) -> None:
    one = sharing("one", postgres.port)
    await one.start()
    await submit(one, "job")
    assert one.end() == exitcodes.OK
    files = [one.log, *(each for each in one.paths.root.rglob("*") if each.is_file())]
    assert len(files) > 3
    for each in files:
        assert postgres.password.encode() not in each.read_bytes()


# ---------------------------------------------------------------- in waiting


async def standing_by(port: int) -> dict[str, Any]:
    """What the driver that waits at `port` says, once it knows who leads."""

    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=60) as client:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                with suppress(httpx.ConnectError):
                    answer = await client.get(f"http://127.0.0.1:{port}/v1alpha1/jobs")
                    said: dict[str, Any] = answer.json()
                    if answer.status_code == 503 and "leads" in said["detail"]:
                        return said
                await asyncio.sleep(LOOK_S)


async def test_a_driver_in_waiting_says_who_leads_and_leads_when_that_one_is_gone(
    sharing: MakeDriver, postgres: Postgres, journal: SqlJournal
) -> None:
    port = free_port()
    first = sharing("first", postgres.port, "--standby")
    second = sharing("second", postgres.port, "--standby", "--listen", f"127.0.0.1:{port}")
    leads_at = (await first.start())["http"].removeprefix("http://")
    process = second.spawn()
    said = await standing_by(port)
    leader = f"holdfast-driver at http://{leads_at}"
    assert said["detail"] == f"this driver stands by: {leader} leads."
    assert not second.paths.address.exists()
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=60) as client:
        assert (await client.get(f"http://127.0.0.1:{port}/healthz")).text == "ok\n"
    with pytest.raises(InvalidStatus) as refused:
        async with connect(f"ws://127.0.0.1:{port}/v1alpha1/nodes/n/executor", proxy=None):
            pass
    assert refused.value.response.status_code == 503
    assert leader_of(refused.value.response.headers, asked="http://a") == f"http://{leads_at}"
    person = Client(f"http://127.0.0.1:{port}", first.paths.user_token.read_text().strip())
    told = await asyncio.to_thread(person.get, path("jobs"))
    assert told["items"] == [], "a command asks the one that leads"
    assert leads_at.encode() in refused.value.response.body

    first.end(signal.SIGKILL)
    await eventually_async(second.paths.address.exists)
    assert (await submit(second, "job")).status_code == 201
    assert process.poll() is None
    assert {each.term for each in await entries(journal) if "job" in each.jobs} == {2}

    third = sharing("third", postgres.port, "--standby", "--listen", f"127.0.0.1:{free_port()}")
    waiting = third.spawn()
    await eventually_async(lambda: "stands by" in third.log.read_text())
    waiting.terminate()
    assert await asyncio.to_thread(waiting.wait, 60) == exitcodes.OK
    assert second.end() == exitcodes.OK


@pytest.mark.parametrize("ends", [True, False], ids=["told to end", "to lead"])
async def test_a_driver_in_waiting_gives_up_a_session_on_which_nobody_answers(
    sharing: MakeDriver, postgres: Postgres, relay: Cuttable, ends: bool
) -> None:
    first = sharing("first", postgres.port, "--standby")
    second = sharing("second", relay.at_port, "--standby", "--listen", f"127.0.0.1:{free_port()}")
    await first.start()
    second.spawn()
    await eventually_async(lambda: "stands by" in second.log.read_text())
    relay.hold_answers(b"")
    await relay.holds.wait()
    if ends:
        assert await asyncio.to_thread(second.end) == exitcodes.OK
        return
    relay.answer_others()
    first.end(signal.SIGKILL)
    await eventually_async(second.paths.address.exists)


async def test_a_signal_while_a_driver_stops_waiting_is_not_forgotten() -> None:
    class Ours:
        async def seek(self) -> str:
            return ""

        async def close(self) -> None: ...

    class Slow(Server):
        async def serve(self, sockets: list[socket.socket] | None = None) -> None:
            while not self.should_exit:
                await asyncio.sleep(0)
            self.tell()

    server = Slow(Starlette())
    assert not await stand_by(Ours(), server, [], say=lambda why, where: None)


REFUSED = """
import sys
from holdfast.driver.adapters.sql.journal import SqlJournal
from holdfast.driver.main import main
from holdfast.driver.ports import TemporaryError


async def commit(*_, **__):
    raise TemporaryError("the database is away")


SqlJournal.commit = commit
sys.exit(main(sys.argv[1:]))
"""


async def test_a_driver_that_cannot_begin_ends_when_it_is_told(tmp_path: Path) -> None:
    command = [sys.executable, "-c", REFUSED, "--state", str(tmp_path / "state")]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            while b"journal failed" not in await asyncio.to_thread(process.stderr.readline):
                assert process.poll() is None
            process.terminate()
            assert await asyncio.to_thread(process.wait, DEADLINE_S) == exitcodes.OK
        finally:
            process.kill()


@pytest.mark.parametrize("silent", [False, True], ids=["refused", "silent"])
async def test_a_leader_that_is_cut_off_from_the_database_steps_down_for_another(
    sharing: MakeDriver, postgres: Postgres, relay: Cuttable, journal: SqlJournal, silent: bool
) -> None:
    """Else executors would stay with a driver that can decide nothing."""
    cut_off = sharing("cut-off", relay.at_port, "--standby")
    other = sharing("other", postgres.port, "--standby")
    await cut_off.start()
    other.spawn()
    await eventually_async(lambda: "stands by" in other.log.read_text())
    since_s = time.monotonic()
    if silent:
        relay.hold_answers(b"")  # to anything: libpq waits for them for ever
    else:
        await relay.cut()
    assert cut_off.process is not None
    assert await asyncio.to_thread(cut_off.process.wait, 60) == exitcodes.TRY_AGAIN
    assert time.monotonic() - since_s < 3 * STEP_DOWN_S
    await eventually_async(other.paths.address.exists)
    assert "this driver has stopped, for another may lead since 10 s" in cut_off.log.read_text()
    assert not cut_off.paths.address.exists()
    assert sorted({each.term for each in await entries(journal)}) == [1, 2]


def test_a_driver_cannot_wait_where_nobody_can_share_its_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--state", str(tmp_path), "--standby"]) == exitcodes.USAGE
    assert "--standby: it needs a journal that drivers share" in capsys.readouterr().err
    assert main(["--state", str(tmp_path), "--journal", "mysql://here"]) == exitcodes.USAGE
    assert "journal: give postgresql://USER@HOST/DATABASE" in capsys.readouterr().err
