"""A person has nodes tested, over REST: what is asked, how far it is, what came of it."""

from typing import Any

import pytest
from msgspec.structs import replace
from suspects import results
from tests.rest.conftest import Driver

from holdfast.driver.core import events
from holdfast.driver.core.testing.asked import found

pytestmark = pytest.mark.usefixtures("two_tests")

DIAGNOSES = "/v1alpha1/diagnoses"


async def nodes(driver: Driver, *names: str) -> None:
    for name in names:
        await driver.happened(
            events.NodeAppeared(node=name),
            events.ExecutorConnected(node=name, incarnation="a", address="127.0.0.1"),
        )


async def answer(
    driver: Driver, number: int, *, bad: tuple[str, ...] = (), value: float = 50.0
) -> None:
    exam = found(driver.control.state.exams.values(), number)
    assert exam is not None
    for node in exam.orders:
        told = tuple(
            replace(each, value=value if each.value else each.value)
            for each in results(exam, node, bad=bad)
        )
        await driver.happened(events.DiagnosticEnded(node=node, id=exam.id, results=told))


async def asked(driver: Driver, **body: Any) -> int:
    done = await driver.http.post(DIAGNOSES, json=body)
    assert done.status_code == 202, done.text
    return int(done.json()["sequence"])


async def test_all_that_can_be_tested_are_and_the_bad_one_is_named(driver: Driver) -> None:
    await nodes(driver, *(f"n{number}" for number in range(5)))
    number = await asked(driver, all=True)
    under_way = (await driver.http.get(f"{DIAGNOSES}/{number}")).json()
    assert (under_way["state"], under_way["stage"]) == ("testing", 1)
    assert under_way["testing"] == [f"n{number}" for number in range(5)]
    await answer(driver, number, bad=("n2",))
    assert (await driver.http.get(f"{DIAGNOSES}/{number}")).json()["stage"] == 2
    await answer(driver, number, bad=("n2",))
    ended = (await driver.http.get(f"{DIAGNOSES}/{number}")).json()
    assert ended["state"] == "ended"
    assert set(ended["bad"]) == {"n2"}
    assert ended["good"] == ["n0", "n1", "n3", "n4"]
    assert {each["stage"] for each in ended["measurements"]} == {1, 2}
    assert (await driver.http.get("/v1alpha1/nodes/n2")).json()["state"] == "free"


async def test_it_can_be_ended_and_its_nodes_are_free(driver: Driver) -> None:
    await nodes(driver, "n0", "n1", "n2")
    number = await asked(driver, nodes=["n1"])
    assert (await driver.http.delete(f"{DIAGNOSES}/{number}")).status_code == 202
    ended = (await driver.http.get(f"{DIAGNOSES}/{number}")).json()
    assert (ended["state"], ended["why"]) == ("ended", "a person ended it")
    assert (ended["good"], ended["undecided"]) == ([], ["n1"])
    assert all(node.exam is None for node in driver.control.state.nodes.values())


async def test_who_left_the_tests_is_not_called_good(driver: Driver) -> None:
    await nodes(driver, "n0", "n1", "n2", "n3", "n4")
    number = await asked(driver, all=True)
    again = events.ExecutorConnected(node="n3", incarnation="b", address="127.0.0.1")
    await driver.happened(again)
    await answer(driver, number)
    ended = (await driver.http.get(f"{DIAGNOSES}/{number}")).json()
    assert (ended["state"], ended["undecided"]) == ("ended", ["n3"])
    assert ended["good"] == ["n0", "n1", "n2", "n4"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 422, "it says which nodes are to be tested"),
        ({"nodes": [], "all": False}, 422, "Send a list of their names"),
        ({"nodes": ["n0"], "all": True}, 422, "and not both"),
        ({"nodes": "n0"}, 422, "Send a list of their names"),
        ({"nodes": [""]}, 422, "Send a list of their names"),
        ({"nodes": ["n9"]}, 404, "there is no 'n9'"),
        ({"nodes": ["n1"]}, 409, "'n1' cannot be tested now: no executor of it is connected"),
    ],
)
async def test_what_cannot_be_meant_or_done_is_said_in_a_sentence(
    driver: Driver, body: dict[str, Any], status: int, said: str
) -> None:
    await nodes(driver, "n0")
    await driver.happened(events.NodeAppeared(node="n1"))
    refused = await driver.http.post(DIAGNOSES, json=body)
    assert refused.status_code == status, refused.text
    assert said in refused.text
    assert driver.control.state.exams == {}


async def test_there_is_none_of_another_number(driver: Driver) -> None:
    assert (await driver.http.get(f"{DIAGNOSES}/7")).status_code == 404
    assert (await driver.http.delete(f"{DIAGNOSES}/7")).status_code == 404
    none = await driver.http.post(DIAGNOSES, json={"all": True})
    assert (none.status_code, "there are no nodes" in none.text) == (409, True)


async def test_a_calibration_changes_nothing_of_what_an_earlier_diagnosis_says(
    driver: Driver,
) -> None:
    await nodes(driver, *(f"n{number}" for number in range(5)))
    number = await asked(driver, all=True)
    await answer(driver, number)
    before = (await driver.http.get(f"{DIAGNOSES}/{number}")).json()
    faster = await asked(driver, all=True)
    await answer(driver, faster, value=100.0)
    done = await driver.http.post(f"{DIAGNOSES}/{faster}/calibrate")
    assert done.status_code == 202
    assert {each.bound for each in driver.control.state.figures.values()} == {75.0}
    assert (await driver.http.get(f"{DIAGNOSES}/{number}")).json() == before
