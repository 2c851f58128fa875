"""A page of a job of a real driver's process: how soon it is there, and what those who look cost.

A script, for it runs beside those of `bench/scale`: `live.py NODES` prints a line of JSON for each
figure. The driver is the process that people start; its nodes, of eight ranks each, are sockets
whose heartbeats come in turn, from this process. What is on the machine beside is in the figures.
"""

import asyncio
import json
import sys
import time
import urllib.request
from collections.abc import Iterator
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
QUIET_S, EVENTS_A_S = 10.0, 10
"""For how long the driver's CPU is looked at; how often something is told of meanwhile."""
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
            await viewers(fleet, process, came)
            for told in await asyncio.to_thread(lambda: list(looked(process, minutes))):
                print(json.dumps(told), flush=True)
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            fleet.close()


async def viewers(fleet: Fleet, process: DriverProcess, came: list[Any]) -> None:
    """Shares of a core that the driver takes while things happen: without viewers, and with."""
    alone = await _share(fleet, process, came)
    crowd = [await view(process.at, process.person, 0, lambda _: None) for _ in range(VIEWERS)]
    try:
        with_them = await _share(fleet, process, came)
    finally:
        for each in crowd:
            each.close()
    told(f"driver, {EVENTS_A_S} events a second: share of a core", "%", 100 * alone)
    more = 100 * (with_them - alone)
    told(f"driver, {VIEWERS} viewers more: share of a core", "%", more)


async def _share(fleet: Fleet, process: DriverProcess, came: list[Any]) -> float:
    cpu_s, began_s = process.cpu_s(), time.monotonic()
    for number in range(int(QUIET_S * EVENTS_A_S)):
        fleet.tell(came[number % len(came)], number)
        await asyncio.sleep(1 / EVENTS_A_S)
    return float((process.cpu_s() - cpu_s) / (time.monotonic() - began_s))


def looked(process: DriverProcess, minutes: float) -> Iterator[dict[str, Any]]:
    """By a browser, in a thread."""
    base = f"http://{process.at.host}:{process.at.port}"
    code = _code(base, process.person)
    with seen.opened(viewport={"width": 1440, "height": 900}) as page:
        page.goto(f"{base}/nodes?code={code}")
        page.wait_for_url(f"{base}/nodes")
        began_s = time.monotonic()
        page.goto(f"{base}/jobs/{JOB}", wait_until="load")
        times = page.evaluate(NAVIGATED)
        yield figure("first byte of the job's page", "ms", times["responseStart"])
        yield figure("full load of the job's page", "ms", times["loadEventEnd"])
        seen.drawn(page, "heatmap")
        yield figure("heat map drawn", "ms", 1e3 * (time.monotonic() - began_s))
        yield figure("heap at the begin", "MiB", seen.heap_mib(page))
        if minutes:
            page.wait_for_timeout(60_000 * minutes)
            yield figure("heap at the end", "MiB", seen.heap_mib(page))
        panned = seen.panned(page, "heatmap")
        yield figure("heat map: main thread's CPU a frame, mean", "ms", panned.main_ms)


def _code(base: str, token: str) -> str:
    """One that opens the page, once."""
    asked = urllib.request.Request(
        f"{base}/v1alpha1/codes", method="POST", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(asked) as answer:
        return str(json.load(answer)["code"])


def figure(name: str, unit: str, value: float) -> dict[str, Any]:
    return {"figure": name, "unit": unit, "value": value}


def told(name: str, unit: str, value: float) -> None:
    print(json.dumps(figure(name, unit, value)), flush=True)


def main() -> None:
    raise_open_files()
    with TemporaryDirectory() as folder:
        asyncio.run(measured(int(sys.argv[1]), Path(folder), float(sys.argv[2])))


if __name__ == "__main__":
    main()
