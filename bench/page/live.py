"""A page of a job of a real driver's process: how soon it is there, and what those who look cost.

A script, for it runs beside those of `bench/scale`: `live.py NODES` prints a line of JSON for each
figure. The driver is the process that people start; its nodes, of eight ranks each, are sockets
whose heartbeats come in turn, from this process. What is on the machine beside is in the figures.
What cannot be measured is left out, with a line that has a note, and the rest is tried.
"""

import asyncio
import json
import statistics
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scale"))

from connected import Fleet  # type: ignore[import-not-found]
from process import DriverProcess, Keeper, driver  # type: ignore[import-not-found]
from viewers import view  # type: ignore[import-not-found]

from holdfast.bench.page import seen
from holdfast.kit.limits import raise_open_files

JOB, VIEWERS = "job", 100
TURNS, TURN_S, EVENTS_A_S = 4, 5.0, 10
"""How often, and for how long, the driver's CPU is looked at without viewers and with them; how
often something is told of meanwhile."""
READ_S, LOOK_S = 60.0, 0.5
"""For a viewer to read the journal from its beginning, and between two looks whether it has."""
NAVIGATED = """() => {
  const [{ responseStart, loadEventEnd }] = performance.getEntriesByType("navigation");
  return { responseStart, loadEventEnd };
}"""


async def measured(nodes: int, folder: Path, minutes: float) -> None:
    keeper, at = Keeper(), folder / "keeper.sock"
    async with keeper.serving(at), driver(folder, at, tls=False) as process:
        fleet = Fleet(process, keeper)
        beating = asyncio.create_task(fleet.beat())
        try:
            came = await fleet.come("node", nodes)
            await fleet.train(JOB, nodes)
            await fleet.rounds(6)
            await _tried(lambda: viewers(fleet, process, came))
            await _tried(lambda: asyncio.to_thread(look, process, minutes))
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            fleet.close()


async def _tried(stage: Callable[[], Awaitable[None]]) -> None:
    """Why it went no further is told; what follows does not need it."""
    try:
        await stage()
    except Exception as error:  # noqa: BLE001 of a browser, a socket, or a driver that is too slow
        said = " ".join(str(error).split())[:300]
        print(json.dumps({"note": said or type(error).__name__}), flush=True)


async def viewers(fleet: Fleet, process: DriverProcess, came: list[Any]) -> None:
    """Shares of a core that the driver takes while things happen: without viewers, and with, in
    turns. As a page does, they begin with what is new."""
    first = await view(process.at, process.person, 0, lambda _: None)
    try:
        await _read(first)
        turns = [await _turn(fleet, process, came, first) for _ in range(TURNS)]
    finally:
        first.close()
    alone, more = (statistics.median(each) for each in zip(*turns, strict=True))
    told(f"driver, {EVENTS_A_S} events a second: share of a core", "%", 100 * alone)
    told(f"driver, {VIEWERS} viewers more: share of a core", "%", 100 * more)


async def _read(viewer: Any) -> None:
    """Until nothing new comes for a while."""
    async with asyncio.timeout(READ_S):
        before = -1
        while viewer.latest != before:
            before = viewer.latest
            await asyncio.sleep(LOOK_S)


async def _turn(
    fleet: Fleet, process: DriverProcess, came: list[Any], first: Any
) -> tuple[float, float]:
    """Its share alone, and what viewers add: by event, as if all came in time."""
    alone_s, wall_s = await _cpu(fleet, process, came)
    share = alone_s / wall_s
    at, person = process.at, process.person
    crowd = [await view(at, person, first.latest, lambda _: None) for _ in range(VIEWERS)]
    try:
        with_s, wall_s = await _cpu(fleet, process, came)
    finally:
        for each in crowd:
            each.close()
    return share, (with_s - share * wall_s) / TURN_S


async def _cpu(fleet: Fleet, process: DriverProcess, came: list[Any]) -> tuple[float, float]:
    """Seconds of it, and of the clock, that TURN_S of events took."""
    cpu_s, began_s = process.cpu_s(), time.monotonic()
    for number in range(int(TURN_S * EVENTS_A_S)):
        fleet.tell(came[number % len(came)], number)
        await asyncio.sleep(1 / EVENTS_A_S)
    return process.cpu_s() - cpu_s, time.monotonic() - began_s


def look(process: DriverProcess, minutes: float) -> None:
    """By a browser, in a thread; each figure is told as it comes."""
    base = f"http://{process.at.host}:{process.at.port}"
    code = _code(base, process.person)
    with seen.opened(viewport={"width": 1440, "height": 900}) as page:
        page.goto(f"{base}/nodes?code={code}")
        page.wait_for_url(f"{base}/nodes")
        began_s = time.monotonic()
        page.goto(f"{base}/jobs/{JOB}", wait_until="load")
        times = page.evaluate(NAVIGATED)
        told("first byte of the job's page", "ms", times["responseStart"])
        told("full load of the job's page", "ms", times["loadEventEnd"])
        seen.drawn(page, "heatmap")
        told("heat map drawn", "ms", 1e3 * (time.monotonic() - began_s))
        panned = seen.panned(page, "heatmap")
        told("heat map: main thread's CPU a frame, mean", "ms", panned.main_ms)
        told("heap at the begin", "MiB", seen.heap_mib(page))
        if minutes:
            page.wait_for_timeout(60_000 * minutes)
            told("heap at the end", "MiB", seen.heap_mib(page))


def _code(base: str, token: str) -> str:
    """One that opens the page, once."""
    asked = urllib.request.Request(
        f"{base}/v1alpha1/codes", method="POST", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(asked) as answer:
        return str(json.load(answer)["code"])


def told(name: str, unit: str, value: float) -> None:
    print(json.dumps({"figure": name, "unit": unit, "value": value}), flush=True)


def main() -> None:
    raise_open_files()
    with TemporaryDirectory() as folder:
        asyncio.run(measured(int(sys.argv[1]), Path(folder), float(sys.argv[2])))


if __name__ == "__main__":
    main()
