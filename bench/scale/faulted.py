"""A fault in one heartbeat among those of all nodes: how soon its decision is in the journal.

A script: `faulted.py NODES` prints a line of JSON. A job runs on all nodes; each node's heartbeat
comes once a period, every tenth of a second one of them tells of a fault, and 100 viewers follow
all entries. Time counts from when the heartbeat was due, so that one that waits behind others is
late; and it is that of the clock, which on a busy machine is the machine's. In one process, without
sockets: the loop, its journal, all detectors and the viewers' pages are the driver's. It needs of
Holdfast what earlier commits have as well.
"""

import asyncio
import json
import sys
from itertools import count, cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import structlog
from decided import Stages, kept  # type: ignore[import-not-found]  # beside this script
from ingested import _beat, _watch  # type: ignore[import-not-found]
from msgspec.structs import replace

from holdfast.driver.adapters.rest.events import written
from holdfast.driver.adapters.rest.pages import Pages
from holdfast.driver.watch import Settings, neighbours
from holdfast.protocol.messages import Heartbeat, LogHit
from holdfast.protocol.wire import Decoder, encode

LAYOUT, VIEWERS = "tp 8, dp N", 100
MOST_FAULTS, EVERY_S, TICK_S = 100, 0.1, 0.5
WITHIN_S = 120.0
"""From the first heartbeat to the last fault: ten times what that takes by the clock."""
XID = 63
"""Row remapping recorded: it is only reported, so that each is decided on, and the job goes on."""


class Fleet:
    """Sends what is due, and takes the time of each fault."""

    def __init__(self, stages: Stages, nodes: int) -> None:
        self._loop, self._now = stages.loop, asyncio.get_running_loop().time
        self._decoder, self._watch = Decoder[Any](Heartbeat), _watch(LAYOUT, nodes)
        self._frames = [_beat(LAYOUT, nodes, node, 1) for node in range(nodes)]
        self._period_s = neighbours.period_s(nodes, Settings())
        self.took_s: list[float] = []

    async def beat(self) -> None:
        """For ever, each node's in its turn; the first after another tenth of a second is ill."""
        each_s, ill_s, began_s = self._period_s / len(self._frames), 0.0, self._now()
        for number, frame in zip(count(), cycle(self._frames), strict=False):
            due_s = began_s + number * each_s
            if due_s > self._now():
                await asyncio.sleep(due_s - self._now())
            elif number % 20 == 0:
                await asyncio.sleep(0)
            ill = due_s >= ill_s
            ill_s = due_s + EVERY_S if ill else ill_s
            self._hear(_faulty(frame, number) if ill else frame, due_s)

    def _hear(self, frame: bytes, due_s: float) -> None:
        for event in self._watch.heard(self._decoder.decode(frame), self._loop.now()):
            self._loop.post(event, lambda: self.took_s.append(self._now() - due_s))

    async def tick(self) -> None:
        while True:
            for event in self._watch.tick(self._loop.now()):
                self._loop.post(event)
            await asyncio.sleep(TICK_S)


def _faulty(frame: bytes, number: int) -> bytes:
    beat = Decoder[Any](Heartbeat).decode(frame)
    hit = LogHit(source="kernel", rule="xid", line=f"Xid {XID}, {number}", xid=XID)
    return encode(replace(beat, logs=(hit,)))


async def _view(pages: Pages, stages: Stages) -> None:
    """Takes every entry there is from now on, as whoever follows the events does."""
    seen = stages.loop.sequence
    while True:
        await stages.loop.committed_beyond(seen)
        seen = (await pages.after(seen)).last


async def _decided(stages: Stages, fleet: Fleet, pages: Pages, faults: int) -> None:
    """Returns once so many faults are decided on. Raises what one of the tasks ended with."""
    viewers = [_view(pages, stages) for _ in range(VIEWERS)]
    try:
        async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in (fleet.beat(), fleet.tick(), *viewers)]
            while len(fleet.took_s) < faults:
                await stages.loop.committed_beyond(stages.loop.sequence)
            for task in tasks:
                task.cancel()
    except TimeoutError:
        decided = f"{len(fleet.took_s)} of {faults} faults were decided on"
        raise RuntimeError(f"within {WITHIN_S:.0f} s {decided}") from None
    except ExceptionGroup as ended:
        raise ended.exceptions[0] from None  # of a group's traceback the last line says nothing


async def measure(nodes: int, folder: Path) -> dict[str, Any]:
    stages = Stages(nodes, folder)
    async with stages.working():
        with kept():
            await stages.start()
            fleet = Fleet(stages, nodes)
        pages = Pages(SimpleNamespace(journal=stages._journal), written)  # type: ignore[arg-type]
        await _decided(stages, fleet, pages, min(MOST_FAULTS, nodes))
    took_s = sorted(fleet.took_s)
    return {
        "stage": "fault",
        "nodes": nodes,
        "decided_s": took_s[len(took_s) // 2],
        "decided_p99_s": took_s[int(len(took_s) * 0.99)],
    }


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(measure(int(sys.argv[1]), Path(folder)))), flush=True)


if __name__ == "__main__":
    main()
