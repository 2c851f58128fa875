"""A driver whose journal was put back from a backup, as a process: a file is copied, and back."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from running_driver import DriverProcess
from waiting import DEADLINE_S
from websockets.asyncio.client import connect

from holdfast.protocol import exitcodes
from holdfast.protocol.messages import Hello, ToExecutor, Welcome
from holdfast.protocol.version import PROTOCOL_VERSION
from holdfast.protocol.wire import Decoder, encode

pytestmark = pytest.mark.slow


def follower_of(term: int) -> Hello:
    """An executor that has followed a driver of this term."""
    return Hello(
        protocol=PROTOCOL_VERSION,
        process="executor",
        node="n",
        incarnation="i",
        generation=7,
        term=term,
        epoch=9,
    )


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[DriverProcess]:
    made = DriverProcess(tmp_path / "state")
    yield made
    if made.process is not None:
        made.end()


@asynccontextmanager
async def executor(driver: DriverProcess, at: dict[str, Any], hello: Hello) -> AsyncIterator[Any]:
    """A connection as an executor; gives the driver's first word."""
    url = f"ws{at['http'].removeprefix('http')}/v1alpha1/nodes/{hello.node}/executor"
    token = driver.paths.node_token.read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    async with connect(url, additional_headers=headers, compression=None, proxy=None) as client:
        await client.send(encode(hello))
        frame = await asyncio.wait_for(client.recv(decode=False), DEADLINE_S)
        yield Decoder[Any](ToExecutor).decode(frame)


def copied(driver: DriverProcess, kept: Path) -> None:
    """All files of the journal, of a driver that has ended."""
    kept.mkdir()
    for each in driver.paths.root.glob("journal.sqlite*"):
        shutil.copy(each, kept)


def put_back(driver: DriverProcess, kept: Path) -> None:
    for each in driver.paths.root.glob("journal.sqlite*"):
        each.unlink()
    for each in kept.iterdir():
        shutil.copy(each, driver.paths.root)


async def test_executors_are_led_again_by_the_second_start_after_it(
    driver: DriverProcess, tmp_path: Path
) -> None:
    await driver.start()
    assert driver.end() == exitcodes.OK
    copied(driver, tmp_path / "backup")
    for _ in range(2):
        await driver.start()
        assert driver.end() == exitcodes.OK
    follower = follower_of(3)
    put_back(driver, tmp_path / "backup")
    async with executor(driver, await driver.start(), follower) as said:
        assert isinstance(said, Welcome)
        assert said.term == 2, "as the backup would have it"
        assert driver.process is not None
        assert await asyncio.to_thread(driver.process.wait, DEADLINE_S) == exitcodes.TRY_AGAIN
    said = "have followed another driver's term 3, and this one's is 2: it was put back"
    assert said in driver.log.read_text()
    async with executor(driver, await driver.start(), follower) as said:
        assert said.term == 4
    assert driver.end() == exitcodes.OK
    assert "n has followed order 9" in " ".join(each.why for each in driver.journal())


async def test_a_term_that_was_given_twice_is_passed_over_too(
    driver: DriverProcess, tmp_path: Path
) -> None:
    """One driver had taken over since the backup: the next one's term is the same again."""
    await driver.start()
    assert driver.end() == exitcodes.OK
    copied(driver, tmp_path / "backup")
    await driver.start()
    assert driver.end() == exitcodes.OK
    put_back(driver, tmp_path / "backup")
    follower = follower_of(2)
    async with executor(driver, await driver.start(), follower) as said:
        assert said.term == 2
        assert driver.process is not None
        assert await asyncio.to_thread(driver.process.wait, DEADLINE_S) == exitcodes.TRY_AGAIN
    async with executor(driver, await driver.start(), follower) as said:
        assert said.term == 3
    assert driver.end() == exitcodes.OK
