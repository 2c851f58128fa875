"""Drivers whose database is away before they lead: they wait in their process, and go on in it.

A process that ended would be started again ever later by a kubelet, while nobody leads.
"""

import asyncio
import json
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event

import httpx
import pytest
from cuttable import Cuttable
from ports import free_port
from postgres import Postgres
from running_driver import DriverProcess
from sharing_drivers import MakeDriver, password_file
from waiting import DEADLINE_S, eventually_async

from holdfast.driver.adapters.lead_postgres import PostgresLead
from holdfast.driver.adapters.sql.postgres import open_postgres
from holdfast.driver.lead import journal_away
from holdfast.driver.lead.journal_away import LeadWithJournal, insist
from holdfast.driver.ports import TemporaryError
from holdfast.driver.settings import Settings
from holdfast.protocol import exitcodes

pytestmark = pytest.mark.slow

OPENS = rb"pg_advisory_xact_lock"
"""What is said to the database by who opens the journal, and by nobody who only looks."""

WAITS = "driver waits: journal: the database is away"
GOES_ON = "driver goes on"


async def said(driver: DriverProcess, words: str) -> None:
    """Return once its log has them; it is not to end before."""

    def has() -> bool:
        assert driver.process is not None
        assert driver.process.poll() is None, driver.log.read_text()
        return words in driver.log.read_text()

    await eventually_async(has, words)


async def leads(driver: DriverProcess) -> None:
    """Return once this very process does."""

    def does() -> bool:
        assert driver.process is not None
        assert driver.process.poll() is None, driver.log.read_text()
        return driver.paths.address.exists()

    await eventually_async(does, "it leads")


async def probed(port: int) -> list[int]:
    """How it answers who asks whether it lives, takes work, and could lead."""
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=DEADLINE_S) as client:
        paths = ("healthz", "readyz", "ablez")
        asked = [await client.get(f"http://127.0.0.1:{port}/{path}") for path in paths]
    return [each.status_code for each in asked]


async def test_it_lives_and_is_not_ready_without_its_database_and_leads_when_that_is_back(
    sharing: MakeDriver, postgres: Postgres
) -> None:
    port = free_port()
    one = sharing("one", postgres.port, "--standby", "--tls", f"--probes=127.0.0.1:{port}")
    await asyncio.to_thread(postgres.stop)
    try:
        process = one.spawn()
        await said(one, WAITS)
        assert await probed(port) == [200, 503, 503]
        assert not one.paths.ca.exists()
    finally:
        await asyncio.to_thread(postgres.start)
    await leads(one)
    assert json.loads(one.paths.address.read_text())["pid"] == process.pid
    assert await probed(port) == [200, 200, 200]
    log = one.log.read_text()
    assert [log.count(WAITS), log.count("journal away")] == [1, 1]
    assert [log.count(GOES_ON), log.count("journal is back")] == [1, 1]
    assert one.end() == exitcodes.OK


def _owner_gone(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.parametrize("silent", [False, True], ids=["refused", "silent"])
@pytest.mark.parametrize(
    "end",
    [
        lambda process: process.send_signal(signal.SIGTERM),
        lambda process: process.send_signal(signal.SIGINT),
        _owner_gone,
    ],
    ids=["SIGTERM", "SIGINT", "owner gone"],
)
async def test_while_it_waits_it_ends_as_soon_as_it_is_told(
    sharing: MakeDriver,
    relay: Cuttable,
    end: Callable[[subprocess.Popen[bytes]], None],
    silent: bool,
) -> None:
    """Also where a thread waits for an answer of the database that never comes."""
    one = sharing("one", relay.at_port, "--standby", "--tls", "--die-with-fd=0")
    if silent:
        relay.hold_answers(OPENS)
    else:
        await relay.cut()
    process = one.spawn(stdin=subprocess.PIPE)
    assert process.stdin is not None
    with process.stdin:
        if silent:
            await asyncio.wait_for(relay.holds.wait(), DEADLINE_S)
        else:
            await said(one, WAITS)
        end(process)
        assert await asyncio.to_thread(process.wait, DEADLINE_S) == exitcodes.OK
    assert not one.paths.socket.exists()


@pytest.mark.parametrize("other_leads", [False, True], ids=["alone", "another leads meanwhile"])
async def test_who_took_the_lead_and_lost_the_database_leads_once_it_has_both(
    sharing: MakeDriver, postgres: Postgres, relay: Cuttable, other_leads: bool
) -> None:
    port = free_port()
    one = sharing("one", relay.at_port, "--standby", f"--probes=127.0.0.1:{port}")
    relay.hold_answers(OPENS)
    one.spawn()
    await asyncio.wait_for(relay.holds.wait(), DEADLINE_S)
    relay.release()
    await relay.cut()
    await said(one, WAITS)
    assert await probed(port) == [200, 503, 200], "it stands by"
    other = sharing("other", postgres.port, "--standby", f"--listen=127.0.0.1:{free_port()}")
    if other_leads:
        await other.start()
    await relay.mend()
    if other_leads:
        await said(one, GOES_ON)
        assert other.end() == exitcodes.OK
    await leads(one)
    assert one.log.read_text().count(WAITS) == 1
    assert one.end() == exitcodes.OK


async def test_a_try_that_nobody_answers_is_given_up_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal_away, "TRY_S", 0.01)
    silent, tries = Event(), 0

    def work() -> int:
        nonlocal tries
        if (number := (tries := tries + 1)) == 1:
            silent.wait()
        return number

    try:
        found = await insist(work, asyncio.Event())
        assert found is not None
        assert found > 1, "a later one: the second may be slow, too"
    finally:
        silent.set()


async def test_after_long_it_ends_for_who_starts_it_may_know_another_address(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "wrong")
    # after the first try, however long that took
    monkeypatch.setattr(journal_away, "PATIENCE_S", 0.0)
    opening = partial(open_postgres, postgres.url("postgres", port=postgres.port))
    with pytest.raises(TemporaryError, match="password authentication failed"):
        await insist(opening, asyncio.Event())


async def test_a_lead_without_the_journal_is_left_to_who_has_both(
    postgres: Postgres,
    database: str,
    relay: Cuttable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGPASSFILE", str(password_file(postgres, tmp_path)))
    url = postgres.url(database, port=relay.at_port)
    settings = Settings(state=tmp_path, journal=url, standby=True)
    ours, theirs = (PostgresLead(postgres.url(database), name=name) for name in ("ours", "theirs"))
    whole = LeadWithJournal(ours, settings)
    await relay.cut()
    with pytest.raises(TemporaryError, match="journal: the database is away"):
        await whole.seek()

    async def taken_by(lead: PostgresLead | LeadWithJournal) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while await lead.seek():
                await asyncio.sleep(0)

    await taken_by(theirs)
    await theirs.close()
    with pytest.raises(TemporaryError, match="journal: the database is away"):
        await whole.seek()
    await taken_by(theirs)
    await relay.mend()
    assert await whole.seek() == "theirs"
    assert whole.journal is None
    await theirs.close()
    await taken_by(whole)
    assert whole.journal is not None
    whole.journal.close()
    await whole.close()
