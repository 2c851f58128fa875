"""Curves of a job, asked of a real driver: noted each second, kept in a file, told by the next."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Event

import pytest
from msgspec.structs import replace
from tests.rest.conftest import Driver
from tests.rest.test_rest_ranks import begun, rank_of

from holdfast.driver.core import events
from holdfast.driver.follow.curves import Curves, stored
from holdfast.driver.watch.curve import Curve
from holdfast.protocol.messages import Gpu, Heartbeat, Task
from holdfast.protocol.paths import RunPaths

CURVES = "/v1alpha1/jobs/speech/curves"


async def running(driver: Driver) -> None:
    """Four ranks of which two are on each node, and a seat for each."""
    plan = events.Plan(task=Task(command=("x",), workdir="."), nodes=2, ranks_per_node=2)
    for node in ("node-0", "node-1"):
        await driver.happened(
            events.NodeAppeared(node=node),
            events.ExecutorConnected(node=node, incarnation="a", address="::"),
        )
    await driver.happened(events.JobSubmitted(job="speech", plan=plan))
    begun(driver)


def heard(driver: Driver, at_s: float, step: int, *, loss: float, memory_bytes: int) -> None:
    for node in range(2):
        ranks = tuple(
            replace(
                rank_of(rank, step, at_s, None), loss=loss, memory_bytes=memory_bytes + 1_000 * rank
            )
            for rank in (2 * node, 2 * node + 1)
        )
        beat = Heartbeat(
            node=f"node-{node}",
            incarnation="a",
            sequence=step,
            uptime_s=at_s,
            ranks=ranks,
            gpus=tuple(Gpu(index=at, memory_bytes=memory_bytes * 10 + at) for at in range(2)),
        )
        driver.control.watch.heard(beat, at_s)
    driver.control.watch.tick(at_s)


def noted(driver: Driver, at_s: float) -> None:
    """As if the driver had looked so long after the job's submission."""
    curves, job = driver.control.curves, driver.control.state.jobs["speech"]
    moment = driver.control.watch.sampled("speech")
    assert moment is not None
    curves._curves[job.name].note(at_s, moment)


async def test_of_a_job_without_ranks_nothing_is_known(driver: Driver) -> None:
    await driver.submit()
    told = (await driver.http.get(CURVES)).json()
    assert (told["at_s"], told["loss"]) == ([], [])
    assert told["missing"][0].startswith("nothing was noted of it")


async def test_loss_speed_and_memory_are_told_as_ranks_told_them(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running(driver)
    heard(driver, 10.0, 5, loss=2.5, memory_bytes=7_000)
    job = driver.control.state.jobs["speech"]
    monkeypatch.setattr(type(job), "seats", [object()])  # its ranks run, by the detectors
    await driver.control.curves.look(lambda _: nullcontext())
    heard(driver, 12.0, 9, loss=2.0, memory_bytes=8_000)
    noted(driver, 1_000.0)
    told = (await driver.http.get(CURVES)).json()
    assert told["loss"] == [2.5, 2.0]
    assert told["step"] == [5, 9]
    assert told["memory_bytes"] == [10_000, 11_000]
    assert told["gpu_memory_bytes"] == [70_001, 80_001], "of the GPU of which most is in use"
    assert len(told["at_s"]) == 2
    (hole, *_) = [each for each in told["missing"] if "to 1,000 s" in each]
    assert hole.startswith("nothing was noted from ")


async def test_who_asks_meanwhile_sees_no_moment_of_which_a_part_is_noted(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running(driver)
    heard(driver, 10.0, 5, loss=2.5, memory_bytes=7_000)
    job, curves = driver.control.state.jobs["speech"], driver.control.curves
    monkeypatch.setattr(type(job), "seats", [object()])
    inside, go_on = Event(), Event()

    def slowly(curve: Curve, at_s: float, moment: object) -> None:
        curve._at_s.append(at_s)
        inside.set()
        assert go_on.wait(10)
        for column in curve._columns.values():
            column.append(1.0)

    monkeypatch.setattr(Curve, "note", slowly)
    with ThreadPoolExecutor() as threads:
        noting = threads.submit(asyncio.run, curves.look(lambda _: nullcontext()))
        assert await asyncio.to_thread(inside.wait, 10)
        asking = threads.submit(curves.told, job)
        threads.submit(go_on.set)
        told = asking.result(10)
        noting.result(10)
    assert told is not None
    assert (len(told.at_s), told.loss) == (1, [1.0])


async def test_the_next_driver_goes_on_from_the_file_unless_it_is_of_another_job(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await running(driver)
    heard(driver, 10.0, 5, loss=2.5, memory_bytes=7_000)
    job = driver.control.state.jobs["speech"]
    monkeypatch.setattr(type(job), "seats", [object()])
    curves = driver.control.curves
    await curves.look(lambda _: nullcontext())
    curves.write()
    control = driver.control
    anew = Curves(
        control.watch, control.settings.paths, state=lambda: control.state, now=control.now
    )
    told = anew.told(job)
    assert told is not None
    assert told.loss == [2.5]
    assert anew.told(replace(job, submitted_s=job.submitted_s + 1)) is None
    path = control.settings.paths.curves("speech")
    path.write_bytes(b"{torn")
    assert anew.told(job) is None
    path.unlink()
    assert stored(path) is None
    assert not list(tmp_path.glob("*.tmp"))


async def test_a_folder_that_cannot_be_written_is_said_and_costs_nothing_else(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running(driver)
    heard(driver, 10.0, 5, loss=2.5, memory_bytes=7_000)
    job = driver.control.state.jobs["speech"]
    monkeypatch.setattr(type(job), "seats", [object()])
    paths: RunPaths = driver.control.settings.paths
    paths.jobs.rmdir() if paths.jobs.exists() else None
    paths.jobs.write_text("a file in its place")
    curves = driver.control.curves
    await curves.look(lambda _: nullcontext())
    curves.write()
    told = (await driver.http.get(CURVES)).json()
    assert told["loss"] == [2.5]
    assert told["missing"][-1].startswith("what is noted now is lost with this driver: ")
    paths.jobs.unlink()
    curves.write()
    assert curves.trouble == ""
