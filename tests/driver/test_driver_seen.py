"""When a driver begins to take connections: once it has seen the cluster, or after a while."""

import asyncio
from typing import cast

import pytest

from holdfast.driver import main
from holdfast.driver.outside import Outside


class Around:
    """A cluster that is seen when the test says so."""

    def __init__(self) -> None:
        self.shown = asyncio.Event()

    async def seen(self) -> None:
        await self.shown.wait()


async def test_it_waits_until_it_has_seen_the_cluster() -> None:
    around = Around()
    waiting = asyncio.create_task(main._seen(cast(Outside, around)))
    await asyncio.sleep(0)
    assert not waiting.done()
    around.shown.set()
    await waiting


async def test_it_does_not_wait_for_a_cluster_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main, "SEEN_WITHIN_S", 0.0)
    await main._seen(cast(Outside, Around()))
