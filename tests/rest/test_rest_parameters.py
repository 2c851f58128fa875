"""What an operation's query does not have is refused, with everything else that is wrong."""

from typing import Any

import pytest
from tests.rest.conftest import Driver
from tests.rest.test_rest_description import OPERATIONS

from holdfast.driver.adapters.rest.app import PREFIX
from holdfast.driver.adapters.rest.problems import MEDIA_TYPE

OPEN = ("/healthz", "/readyz", "/metrics")


def url_of(operation: str) -> tuple[str, str]:
    """Its method and path, about nothing that there is."""
    method, path = operation.split()
    whole = path if path in OPEN else PREFIX + path
    named = {"number": 9, "rank": 1, "diagnosis": 9, "burst": 9, "webhook": "on-call"}
    return method, whole.format(job="speech", node="node-1", **named)


async def test_a_parameter_that_an_operation_does_not_have_is_refused(driver: Driver) -> None:
    for name, operation in OPERATIONS.items():
        method, url = url_of(name)
        answer = await driver.http.request(method, f"{url}?colour=red")
        assert answer.status_code == 422, name
        (mistake,) = answer.json()["errors"]
        assert (mistake["field"], mistake["value"]) == ("colour", '"red"')
        assert mistake["why"] == "there is no field 'colour' here."
        shown = operation["responses"]["422"]["content"][MEDIA_TYPE]["examples"]
        assert shown["unknown-parameter"]["value"]["errors"] == [mistake], name


async def test_who_asks_without_a_token_learns_nothing_else(driver: Driver) -> None:
    del driver.http.headers["authorization"]
    for name, operation in OPERATIONS.items():
        method, url = url_of(name)
        answer = await driver.http.request(method, f"{url}?colour=red")
        assert answer.status_code == (401 if "security" in operation else 422), name


async def test_all_that_is_wrong_with_a_query_comes_at_once(driver: Driver) -> None:
    asked: dict[str, Any] = {
        "limit": 0,
        "phase": ["Running", "Runing"],
        "label": "x",
        "nam": "a",
        "colour": ["red", "blue"],
    }
    answer = await driver.http.get(f"{PREFIX}/jobs", params=asked)
    assert answer.status_code == 422
    told = {each["field"]: (each["value"], each["fix"]) for each in answer.json()["errors"]}
    assert told["limit"] == ('"0"', "Set at least 1.")
    assert told["phase[1]"][1].startswith("Write 'Pending',")
    assert told["label[0]"] == ('"x"', "E.g. label=team=speech")
    assert told["nam"] == ('"a"', "Did you mean 'name'?")
    known = "Known here: continue, label, limit, name, phase."
    assert told["colour"] == ('["red","blue"]', known)
    assert len(told) == 5


async def test_what_takes_one_value_is_not_given_twice(driver: Driver) -> None:
    answer = await driver.http.get(f"{PREFIX}/jobs?limit=1&limit=2&continue=a&continue=a")
    assert answer.status_code == 422
    told = {each["field"]: (each["value"], each["fix"]) for each in answer.json()["errors"]}
    assert told == {
        "limit": ('["1","2"]', "Give it once."),
        "continue": ('["a","a"]', "Give it once."),
    }
    answer = await driver.http.get(f"{PREFIX}/events?job=a&job=b")
    assert [each["field"] for each in answer.json()["errors"]] == ["job"]
    answer = await driver.http.get(f"{PREFIX}/jobs?phase=Running&phase=Failed")
    assert answer.status_code == 200, "of these each is meant"


async def test_what_is_wrong_in_the_path_comes_with_it(driver: Driver) -> None:
    answer = await driver.http.get(f"{PREFIX}/incidents/x?colour=red")
    assert {each["field"] for each in answer.json()["errors"]} == {"number", "colour"}


@pytest.mark.parametrize("path", ["events", "jobs/speech/story"])
async def test_a_sequence_that_no_journal_can_have_is_refused(driver: Driver, path: str) -> None:
    await driver.submit()
    answer = await driver.http.get(f"{PREFIX}/{path}?after={2**63}")
    assert answer.status_code == 422
