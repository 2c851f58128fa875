"""The files of the page, which are kept in memory, and the parts of a job's page, asked at once."""

import asyncio
import re
from importlib.resources import files
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.rest.conftest import Driver
from tests.rest.test_rest_page import browser
from waiting import DEADLINE_S

from holdfast.driver.adapters.page import reading
from holdfast.page.logs import pane
from holdfast.page.pages import Log


async def test_a_browser_is_given_each_file_that_a_page_names_and_keeps_it(driver: Driver) -> None:
    async with browser(driver) as page:
        named = set(re.findall(r'"/static/([^"]+)"', (await page.get("/")).text))
        assert named
        for path in named:
            answer = await page.get(f"/static/{path}")
            assert answer.content == (files("holdfast.page") / "static" / path).read_bytes()
            assert ("javascript" in answer.headers["content-type"]) == path.endswith(".js")
            tag = answer.headers["etag"]
            again = await page.get(f"/static/{path}", headers={"If-None-Match": tag})
            assert (again.status_code, again.content) == (304, b"")
            other = await page.get(f"/static/{path}", headers={"If-None-Match": '"x"'})
            assert other.status_code == 200


@pytest.mark.parametrize(
    "path", ["none.js", "", "views", "views/", "../pages.py", "%2e%2e/pages.py"]
)
async def test_there_is_no_other_file(driver: Driver, path: str) -> None:
    async with browser(driver) as page:
        assert (await page.get(f"/static/{path}")).status_code == 404


async def test_a_node_that_is_slow_to_send_a_log_holds_no_other_part_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each part waits for another one to have been asked for."""
    asked = asyncio.Barrier(4)

    async def part(*_: object, **__: object) -> Any:
        await asked.wait()
        return Log(0, "stderr", 1, pane(b"", whole=True))

    async def known(*_: object) -> Any:
        return {"name": "speech", "phase": "Running", "exit": None}

    async def none(*_: object) -> list[Any]:
        return []

    async def may(*_: object) -> str:
        return "speech"

    facts = SimpleNamespace(live=True, sequence=1, said=lambda: "", may=may, job=known)
    facts.incidents, facts.log = none, part
    facts.why_job = facts.goodput = facts.curves = part
    monkeypatch.setattr(reading.pages, "job", lambda *parts: "made")
    request = SimpleNamespace(path_params={"job": "speech"}, query_params={})
    session = SimpleNamespace(token="", form="")
    async with asyncio.timeout(DEADLINE_S):
        page = await reading.job(reading.Asked(*map(cast, [Any] * 3, (request, facts, session))))
    assert page == "made"
