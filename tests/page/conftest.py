"""A real run, and a browser that looks at its page."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from shells import Shell, heard, shell_in

from holdfast.cli.client import Client
from holdfast.protocol.paths import RunPaths

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = "chromium"
TRAIN = """
import os, sys, time
from holdfast import telemetry
print("rank", os.environ["RANK"], "begins", file=sys.stderr, flush=True)
for step in range(1, 1_000_000):
    time.sleep(0.05)
    telemetry.step(step, loss=3 / step)
"""


class Watched:
    """A run with two nodes and standbys, as its page and its interface show it."""

    def __init__(self, shell: Shell, url: str) -> None:
        self.base = url.partition("/?")[0]
        self.first = url
        self.paths = RunPaths(shell.run)
        self.name = shell.run.name
        self.shell = shell

    @property
    def client(self) -> Client:
        return Client(self.base, self.paths.user_token.read_text().strip())

    def job(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/v1alpha1/jobs/{self.name}")
        return found

    def pid(self, rank: int) -> int | None:
        """Of the rank, once it is heard of."""
        told = (place["pids"].get(str(rank)) for place in self.job()["places"])
        return next(filter(None, told), None)

    def opened(self, context: "BrowserContext", path: str = "/") -> "Page":
        """Its page, by a code of its own."""
        page = context.new_page()
        code = self.client.post("/v1alpha1/codes")["code"]
        page.goto(f"{self.base}{path}?code={code}")
        page.wait_for_url(re.compile(r"^[^?]*$"))
        return page


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    required = os.environ.get("HOLDFAST_TEST_BROWSER") == "required"
    program = shutil.which(CHROMIUM)
    if program is None:
        assert not required, f"{CHROMIUM} is not installed: apt-get install {CHROMIUM}"
        pytest.skip(f"{CHROMIUM} is not installed")
    if not required:
        pytest.importorskip("playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def context(browser: "Browser") -> "Iterator[BrowserContext]":
    made = browser.new_context(viewport={"width": 360, "height": 740})
    made.set_default_timeout(30_000)
    yield made
    made.close()


@pytest.fixture(scope="module")
def watched(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    """With as many standbys as the module says, one by itself: each tests itself, with torch."""
    folder: Path = tmp_path_factory.mktemp("page")
    nodes = ["--nodes", "2", "--standbys", str(getattr(request.module, "STANDBYS", 1))]
    with shell_in(folder, warm=True) as shell:
        shell.script("train.py", TRAIN)
        running = shell.start("run", "-n", "1", *nodes, "train.py")
        url = re.search(r"page (\S+)", heard(running, "?code="))
        assert url is not None
        yield Watched(shell, url[1])
