"""Stacks of live ranks: who is asked, how often, and what is said where there is none."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.rest.conftest import Driver
from tests.rest.test_rest_nodes import NODE

from holdfast.driver.adapters.rest import stacks
from holdfast.driver.core import events as e
from holdfast.driver.ports import TemporaryError
from holdfast.protocol.messages import Rendezvous

PATH = "/v1alpha1/jobs/speech/stacks"


class Executors:
    """Of all nodes. `held`: nobody answers until it is set."""

    def __init__(self, told: dict[int, str]) -> None:
        self.told = told
        self.held: asyncio.Event | None = None
        self.away = ""
        self.asked: list[tuple[str, tuple[int, ...]]] = []

    async def stacks(
        self, node: str, job: str, ranks: Sequence[int], limit_s: float
    ) -> dict[int, str]:
        self.asked.append((node, tuple(ranks)))
        if self.held is not None:
            await self.held.wait()
        if self.away:
            raise TemporaryError(self.away)
        return {rank: self.told[rank] for rank in ranks if rank in self.told}

    async def log(self, node: str, job: str, **_: object) -> tuple[bytes, int]:
        return b"", 0


@pytest.fixture
async def executors(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Executors:
    """Of a job whose two ranks are seated on one node."""
    made = Executors({0: "Thread 1 (idle)\n  f (a.py:1)", 1: "Thread 2 (idle)\n  f (a.py:1)"})
    monkeypatch.setattr(driver.control, "nodes", made)
    monkeypatch.setattr(stacks, "REST_S", 0.0)
    await seated(driver)
    return made


async def seated(driver: Driver) -> None:
    """Two ranks run on node-1."""
    await driver.happened(*NODE)
    await driver.submit()
    await driver.happened(e.NodeAllocated(job="speech", node="node-1"))
    epoch = driver.loop.state.jobs["speech"].epoch
    await driver.happened(e.NodeQuiet(job="speech", epoch=epoch, node="node-1"))
    meets = Rendezvous(address="10.0.0.1", port=29_400)
    ready = e.RendezvousReady(job="speech", epoch=epoch, node="node-1", rendezvous=meets)
    await driver.happened(ready)
    assert driver.loop.state.jobs["speech"].seats


async def asked(driver: Driver, ranks: Any) -> Any:
    return await driver.http.post(PATH, json={"ranks": ranks})


async def test_ranks_that_stand_alike_are_told_once(driver: Driver, executors: Executors) -> None:
    answer = await asked(driver, [1, 0, 1])
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert [each["ranks"] for each in told["stacks"]] == [[0, 1]]
    assert told["missing"] == []
    assert executors.asked == [("node-1", (0, 1))]


async def test_a_rank_that_has_none_is_told_beside_the_others(
    driver: Driver, executors: Executors
) -> None:
    executors.told[1] = "no stack: the rank does not run here"
    told = (await asked(driver, [0, 1])).json()
    assert [each["ranks"] for each in told["stacks"]] == [[0]]
    assert told["missing"] == [{"rank": 1, "why": "the rank does not run here"}]


async def test_a_node_that_is_away_is_said_in_one_sentence(
    driver: Driver, executors: Executors
) -> None:
    executors.away = "node node-1: its executor is not connected"
    answer = await asked(driver, [0, 1])
    assert answer.status_code == 503
    assert answer.json()["detail"] == (
        "there is no stack of rank 0 of speech (nor of 1 more rank): "
        "node node-1: its executor is not connected."
    )


async def test_a_job_is_sampled_once_at_a_time_and_not_again_at_once(
    driver: Driver, executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "REST_S", 1_000.0)
    executors.held = asyncio.Event()
    first = asyncio.create_task(asked(driver, [0]))
    while not executors.asked:
        await asyncio.sleep(0.01)
    assert (await asked(driver, [1])).status_code == 429
    executors.held.set()
    assert (await first).status_code == 200
    refused = await asked(driver, [1])
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    assert len(executors.asked) == 1


@pytest.mark.parametrize(
    ("ranks", "status", "said"),
    [
        ([2], 404, "speech has ranks 0 to 1, not 2."),
        ([], 422, "1 mistake"),
        (None, 422, "1 mistake"),
        ([True], 422, "1 mistake"),
        (list(range(2_000)), 422, "1 mistake"),
    ],
)
async def test_ranks_that_cannot_be_are_refused(
    driver: Driver, executors: Executors, ranks: Any, status: int, said: str
) -> None:
    answer = await asked(driver, ranks)
    assert answer.status_code == status
    assert said in answer.json()["detail"]
    assert executors.asked == []


async def test_a_job_that_does_not_run_has_no_stacks(driver: Driver) -> None:
    await driver.submit()
    answer = await asked(driver, [0])
    assert answer.status_code == 409
    assert answer.json()["detail"] == "no rank of speech runs: it is Pending."
