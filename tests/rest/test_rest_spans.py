"""What ranks did when, as the driver answers."""

from typing import Any

import made_spans
from tests.rest.conftest import Driver

from holdfast.driver.adapters.rest.app import PREFIX

URL = f"{PREFIX}/jobs/speech/spans"


async def asked(driver: Driver, **query: Any) -> dict[str, Any]:
    answer = await driver.http.get(URL, params=query)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def test_spans_of_a_time_and_of_some_ranks_are_told(driver: Driver) -> None:
    await driver.submit()
    made_spans.made(driver.control.settings.state)
    told = await asked(driver, from_s=1.5, to_s=1.65, ranks="1,3")
    assert (told["job"], told["from_s"], told["to_s"]) == ("speech", 1.5, 1.65)
    assert {span["rank"] for span in told["spans"]} == {1, 3}
    assert told["clock_error_s"] == {"node-1": 0.0002, "node-2": 0.0002}
    assert (told["dropped"], told["more"], told["troubles"]) == (6, False, [])
    span = next(span for span in told["spans"] if span["kind"] == "collective")
    assert span["name"] == "all_reduce"
    assert span["group"] == made_spans.GROUP
    assert span["start_s"] + span["took_s"] >= 1.5


async def test_what_was_left_out_is_said(driver: Driver) -> None:
    await driver.submit()
    made_spans.made(driver.control.settings.state)
    told = await asked(driver, from_s=0, to_s=100, limit=5)
    assert (len(told["spans"]), told["more"]) == (5, True)


async def test_without_traces_there_are_none(driver: Driver) -> None:
    await driver.submit()
    assert (await asked(driver))["spans"] == []


async def test_ranks_that_are_none_are_refused(driver: Driver) -> None:
    await driver.submit()
    for wrong in ("x", "1,,2", "1,-2", "1," * 5_000 + "1"):
        answer = await driver.http.get(URL, params={"ranks": wrong})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "ranks"


async def test_times_that_are_none_are_refused(driver: Driver) -> None:
    await driver.submit()
    for wrong in ("-1", "nan", "inf"):
        answer = await driver.http.get(URL, params={"from_s": wrong})
        assert answer.status_code == 422
