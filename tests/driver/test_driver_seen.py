"""When a driver begins to take connections: once it has seen the cluster, or after a while.

And that nobody is missed before.
"""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from holdfast.driver import process
from holdfast.driver.adapters.no_cluster import NoCluster
from holdfast.driver.adapters.sql.sqlite import open_sqlite
from holdfast.driver.adapters.tokens import load_tokens
from holdfast.driver.cluster.outside import Local, Outside
from holdfast.driver.core.events import Found
from holdfast.driver.serve.probes import Readiness
from holdfast.driver.settings import Settings
from holdfast.driver.watch import Expectation
from holdfast.driver.wiring import Driver
from holdfast.kit.files import private_folder
from holdfast.protocol.faults import Kind
from holdfast.protocol.messages import Heartbeat, Probe, Seat


class Around:
    """A cluster that is seen when the test says so."""

    def __init__(self) -> None:
        self.shown = asyncio.Event()

    async def seen(self) -> None:
        await self.shown.wait()


async def test_it_waits_until_it_has_seen_the_cluster() -> None:
    around = Around()
    waiting = asyncio.create_task(process._seen(cast(Outside, around)))
    await asyncio.sleep(0)
    assert not waiting.done()
    around.shown.set()
    await waiting


async def test_it_does_not_wait_for_a_cluster_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "SEEN_WITHIN_S", 0.0)
    await process._seen(cast(Outside, Around()))


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall(self) -> datetime:
        return datetime.fromtimestamp(self.now_s, UTC)


class Started:
    """A driver that took over a job of two nodes. Only node-1 speaks, and has no answer from the
    other for long.
    """

    def __init__(self, driver: Driver, clock: Hand) -> None:
        self.driver, self._clock = driver, clock
        seats = [Seat(rank=n, local_rank=0, node=f"node-{n + 1}", address="::") for n in (0, 1)]
        driver._watch.expect(Expectation(job="job", epoch=1, seats=tuple(seats)))
        self._beats = 0

    def passes(self, seconds: int, *, beats: bool = True) -> list[tuple[Kind, str | None]]:
        """So much time; who is accused of what meanwhile."""
        found = []
        for _ in range(2 * seconds):
            self._clock.now_s += 0.5
            now = self.driver._running.now()
            heard = self.driver._watch.heard(self._beat(), now) if beats else []
            found += [*heard, *self.driver._watch.tick(now)]
        return [(e.finding.kind, e.finding.node) for e in found if isinstance(e, Found)]

    def _beat(self) -> Heartbeat:
        self._beats += 1
        probe = Probe(node="node-2", ok=False, silent_s=60.0)
        return Heartbeat(
            node="node-1", incarnation="a", sequence=self._beats, uptime_s=60.0, probes=(probe,)
        )


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    settings, clock = Settings(state=tmp_path / "state"), Hand()
    private_folder(settings.paths.root)
    outside = Local(NoCluster(), load_tokens(settings.paths))
    with closing(open_sqlite(settings.paths.journal, reserve_bytes=0)) as journal:
        made = Driver(
            settings,
            journal=journal,
            last_lines=journal,
            entries=journal,
            positions=journal,
            outside=outside,
            clock=clock,
        )
        yield Started(made, clock)


def test_no_node_is_missed_before_it_can_connect_however_long_that_takes(started: Started) -> None:
    assert started.passes(30, beats=False) == [], "nobody is listened to yet"
    started.driver.answers(Readiness())
    assert started.passes(9) == []
    assert started.passes(4) == [(Kind.NODE_LOST, "node-2")]
