"""A start of several pods waits for all of them, and is told when they cannot be had."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from waiting import DEADLINE_S

from holdfast.driver.adapters.kubernetes import pods, podspec
from holdfast.driver.adapters.kubernetes.gang import Gang, Gangs
from holdfast.driver.adapters.kubernetes.podbook import PodBook
from holdfast.driver.ports import BarredError, UnfitError
from holdfast.protocol.nodeenv import Drivers

Object = dict[str, Any]


def job(nodes: int) -> Object:
    metadata = {"name": "speech", "namespace": "lab", "uid": "job-1"}
    return {"metadata": metadata, "spec": {"nodes": nodes, "pod": {"image": "speech:1"}}}


def pod(slot: int, *, held: pods.Json | None = podspec.GATED) -> Object:
    order = podspec.Order(job(2), f"node-{slot}", slot, 1, Drivers(["http://a:1"]), held)
    made = podspec.manifest(order)
    made["metadata"] |= {"uid": f"pod-{slot}", "resourceVersion": str(slot + 1)}
    return made


def gang(book: PodBook, *, nodes: int, coming: int) -> Gang:
    made = Gang(book, job(nodes))
    made.coming = coming
    return made


async def test_those_that_came_first_wait_for_the_last() -> None:
    start = gang(PodBook(), nodes=2, coming=2)
    assert start.holds
    start.made(pod(0))
    waiting = asyncio.create_task(start.whole(pod(0), within_s=DEADLINE_S))
    await asyncio.sleep(0)
    assert not waiting.done()
    start.made(pod(1))
    await waiting
    await start.whole(pod(1), within_s=DEADLINE_S)
    assert not start.holds


async def test_nobody_waits_for_one_that_is_refused() -> None:
    start = gang(PodBook(), nodes=2, coming=2)
    start.made(pod(0))
    waiting = asyncio.create_task(start.whole(pod(0), within_s=DEADLINE_S))
    await asyncio.sleep(0)
    start.refused("exceeded quota")
    with pytest.raises(BarredError, match="exceeded quota"):
        await waiting


async def test_a_standby_that_is_refused_hinders_nobody() -> None:
    start = gang(PodBook(), nodes=2, coming=3)
    start.refused("exceeded quota")
    start.made(pod(0))
    start.made(pod(1))
    await start.whole(pod(0), within_s=DEADLINE_S)


async def test_one_that_does_not_come_is_waited_for_until_the_deadline() -> None:
    start = gang(PodBook(), nodes=2, coming=2)
    start.made(pod(0))
    with pytest.raises(UnfitError, match="1 of the 2 pods of its start are there"):
        await start.whole(pod(0), within_s=0.05)


@pytest.mark.looptime
async def test_while_others_come_nobody_is_late_however_many_there_are() -> None:
    start = gang(PodBook(), nodes=4, coming=4)
    start.made(pod(0))
    waiting = asyncio.create_task(start.whole(pod(0), within_s=20.0))
    for slot in range(1, 4):
        await asyncio.sleep(15.0)
        start.made(pod(slot))
    await waiting


@pytest.mark.parametrize(
    "end",
    [lambda book: book.drop(pod(0)), lambda book: book.give_up("pod-0")],
    ids=["deleted", "wanted no more"],
)
async def test_a_pod_that_goes_while_it_waits_ends_its_wait_and_keeps_its_gate(
    end: Callable[[PodBook], None],
) -> None:
    book = PodBook()
    start = gang(book, nodes=2, coming=2)
    start.made(pod(0))
    waiting = asyncio.create_task(start.whole(pod(0), within_s=DEADLINE_S))
    await asyncio.sleep(0)
    end(book)
    with pytest.raises(UnfitError, match="was deleted before its start was whole"):
        await waiting


def test_a_replacement_and_the_pod_of_a_small_job_wait_for_nobody() -> None:
    book = PodBook()
    assert not gang(book, nodes=1, coming=1).holds
    book.put(pod(0, held=None))
    assert not gang(book, nodes=2, coming=1).holds


async def test_a_pod_that_no_member_has_and_that_is_not_held_does_not_count() -> None:
    """The watch may tell of it before the answer that it is not in its group, and goes again."""
    book = PodBook()
    start = gang(book, nodes=2, coming=2)
    book.put(pod(0, held=None))
    start.made(pod(1))
    assert start.holds
    book.drop(pod(0, held=None))
    start.made(pod(2))
    assert not start.holds


async def test_one_that_is_wanted_no_more_leaves_its_place_to_another() -> None:
    book = PodBook()
    start = gang(book, nodes=2, coming=2)
    start.made(pod(0))
    start.left()
    assert start.holds
    assert not start.why
    start.coming += 1
    start.made(pod(1))
    assert not start.holds


@pytest.mark.parametrize(("let_through", "another"), [(True, True), (False, False)])
def test_after_a_start_that_was_let_through_in_vain_comes_another(
    let_through: bool, another: bool
) -> None:
    book = PodBook()
    gangs = Gangs(Anybody(), book, asyncio.Semaphore(), within_s=DEADLINE_S)  # type: ignore[arg-type]
    with gangs.joined(job(2)) as first:
        first.holds = not let_through
        gangs.failed(first)
        with gangs.joined(job(2)) as second:
            assert (second is not first) == another
            assert second.holds
        with gangs.joined(job(2)) as third:
            assert (third is second) == (not another)


class Anybody:
    async def may_change(self) -> None:
        pass


async def test_a_driver_that_takes_over_goes_on_with_a_start_that_waits() -> None:
    book = PodBook()
    book.put(pod(0))
    start = gang(book, nodes=2, coming=1)
    assert start.holds
    start.made(pod(1))
    assert not start.holds


def test_our_own_gate_is_not_what_keeps_a_pod_from_running() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    status = {"status": {"conditions": [gated]}}
    assert pods.hindrance(pod(0) | status) == ""
    assert pods.hindrance(pod(0, held=None) | status) == "SchedulingGated"
