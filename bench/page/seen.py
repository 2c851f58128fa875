"""A headless browser that looks at the pictures: how soon, how smoothly, and in how much memory.

Chromium by playwright; the browser is the system's own. Must not measure what it waits for itself.
"""

import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PANS = 60
"""Frames that a drag is over."""
STEP_PX = 6
DRAWN_S, LOOK_MS = 30.0, 10.0

READY = """
async (view) => {
  const { shown } = await import("/static/views.js");
  const figure = document.querySelector(`figure[data-view="${view}"]`);
  return Boolean(shown(figure)?.found) && shown(figure).stage.frameMs.length > 0;
}
"""
PAN = """
async ([view, frames, px]) => {
  const { shown } = await import("/static/views.js");
  const { stage } = shown(document.querySelector(`figure[data-view="${view}"]`));
  stage.canvas.scrollIntoView({ block: "center" });
  stage.zoomAt(3, stage.width / 2, stage.height / 2);
  const next = () => new Promise((done) => requestAnimationFrame(() => done()));
  for (let at = 0; at < 5; at += 1) await next();
  stage.frameMs.length = 0;
  for (let at = 0; at < frames; at += 1) {
    stage.move(at < frames / 2 ? px : -px, at % 2 ? px / 2 : -px / 2);
    await next();
  }
  await next();
  const drawn = [...stage.frameMs];
  stage.reset();
  return drawn;
}
"""


class Panned(NamedTuple):
    """Milliseconds: of the script that draws, by frame, on the clock; and of processor, of all that
    the page's main thread did (script, style, layout, paint), for each of them. On the clock that
    would be what else the machine does."""

    script_ms: list[float]
    main_ms: float

    @property
    def median_ms(self) -> float:
        return statistics.median(self.script_ms)


def browser_path() -> str | None:
    """The system's browser; None where there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def opened(**more: Any) -> Iterator[Any]:
    """A page of a browser of its own. Raises `LookupError` where there is none."""
    path = browser_path()
    if path is None:
        raise LookupError("there is no chromium here: apt install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise LookupError("playwright is not installed: pip install playwright") from error
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--enable-precise-memory-info"]
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        try:
            yield browser.new_page(**more)
        finally:
            browser.close()


def drawn(page: Any, view: str) -> None:
    """Wait until it is. Raises `LookupError` where it never is."""
    for _ in range(int(1e3 * DRAWN_S / LOOK_MS)):
        if page.evaluate(READY, view):
            return
        page.wait_for_timeout(LOOK_MS)
    raise LookupError(f"the {view} was not drawn within {DRAWN_S:g} s")


def panned(page: Any, view: str, frames: int = PANS) -> Panned:
    """Drag it about, zoomed in."""
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})
    before_s = _task_s(client)
    script = page.evaluate(PAN, [view, frames, STEP_PX])
    main_s = _task_s(client) - before_s
    client.detach()
    return Panned(script, 1e3 * main_s / max(1, len(script)))


def heap_mib(page: Any) -> float:
    """What its scripts hold, after the garbage is gone."""
    client = page.context.new_cdp_session(page)
    client.send("HeapProfiler.collectGarbage")
    used = client.send("Runtime.getHeapUsage")["usedSize"]
    client.detach()
    return float(used) / 2**20


def _task_s(client: Any) -> float:
    told = {
        each["name"]: each["value"] for each in client.send("Performance.getMetrics")["metrics"]
    }
    return float(told["TaskDuration"])
