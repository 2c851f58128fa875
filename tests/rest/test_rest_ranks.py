"""Routes about ranks at this moment, asked of a real driver whose nodes are scripted."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.rest.conftest import Driver

from holdfast.driver.adapters.rest import ranks as route
from holdfast.driver.watch import Expectation
from holdfast.protocol.messages import GroupProgress, Heartbeat, RankProgress, Seat
from holdfast.protocol.topology import Topology


def begun(driver: Driver, count: int = 4, **more: Any) -> None:
    """The job has ranks, two a node, of which the detectors are told."""
    seats = tuple(
        Seat(rank=rank, local_rank=rank % 2, node=f"node-{rank // 2}", address="::")
        for rank in range(count)
    )
    driver.control.watch.expect(Expectation(job="speech", epoch=1, seats=seats, **more))


def heard(driver: Driver, at_s: float, step: int, *, held: int | None = None) -> None:
    """A heartbeat of both nodes; all others wait for `held`."""
    for node in range(2):
        own = (node * 2, node * 2 + 1)
        told = tuple(rank_of(rank, step, at_s, held) for rank in own)
        beat = Heartbeat(
            node=f"node-{node}",
            incarnation="a",
            sequence=int(10 * at_s),
            uptime_s=at_s,
            ranks=told,
        )
        driver.control.watch.heard(beat, at_s)
    driver.control.watch.tick(at_s)


def rank_of(rank: int, step: int, at_s: float, held: int | None) -> RankProgress:
    waits = held is not None and rank != held
    group = GroupProgress(
        members=7,
        kind="all_reduce",
        enqueued=step + waits,
        done=step,
        ranks=(0, 1, 2, 3),
    )
    seen = RankProgress(rank=rank, epoch=1, job="speech", pid=100 + rank, process="S", hooks=True)
    return replace(
        seen,
        step=step,
        groups=(group,),
        waiting=waits,
        still_s=3.0 if held is not None else 0.0,
        stepped_s=1.0 + 0.5 * step,
        ran_s=0.3 * step,
        waited_s=0.1 * step,
        wall_s={"forward": 0.2 * step},
    )


async def test_a_job_without_ranks_is_told_as_such(driver: Driver) -> None:
    await driver.submit()
    for name in ("ranks", "view3d"):
        answer = (await driver.http.get(f"/v1alpha1/jobs/speech/{name}")).json()
        assert answer["ranks"] == []
        assert answer["nothing"] == "speech has no ranks now: it is Pending."


async def test_there_is_a_row_each_rank_with_where_its_time_goes(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "SHARE", 0)
    await driver.submit()
    begun(driver)
    heard(driver, 10.0, 5)
    first = (await driver.http.get("/v1alpha1/jobs/speech/ranks")).json()
    assert [row["rank"] for row in first["ranks"]] == [0, 1, 2, 3]
    assert [row["node"] for row in first["ranks"]] == ["node-0", "node-0", "node-1", "node-1"]
    assert all("spent" not in row for row in first["ranks"])
    for beat in range(1, 12):
        heard(driver, 10.0 + beat, 5 + 2 * beat)
    row = (await driver.http.get("/v1alpha1/jobs/speech/ranks")).json()["ranks"][2]
    assert row["state"] == "runs"
    spent = row["spent"]
    assert spent["step_s"] == pytest.approx(0.5)
    assert spent["own_s"] == pytest.approx(0.4)
    assert spent["waits_s"] == pytest.approx(0.1)
    assert spent["wall_s"] == {"forward": pytest.approx(0.2)}


async def test_who_waits_for_whom_is_in_both_answers(driver: Driver) -> None:
    await driver.submit()
    begun(driver, topology=Topology(dp=2, tp=2))
    heard(driver, 10.0, 5)
    heard(driver, 14.0, 5, held=2)
    rows = (await driver.http.get("/v1alpha1/jobs/speech/ranks")).json()["ranks"]
    assert [row["state"] for row in rows] == ["waits", "waits", "still", "waits"]
    assert (rows[0]["waits_on"], rows[0]["waits_in"]) == ([2], "all_reduce #6 of [0, 1, 2, 3]")
    view = (await driver.http.get("/v1alpha1/jobs/speech/view3d")).json()
    assert view["dims"] == {"dp": 2, "pp": 1, "tp": 2}
    assert view["declared"] is True
    assert [each["at"] for each in view["ranks"]] == [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]
    (wait,) = view["waits"]
    assert (wait["waiting"], wait["lacking"]) == ([0, 1, 3], [2])
    assert view["ends"] == [2]


async def test_a_job_that_does_not_say_how_it_is_parallel_is_one_row(driver: Driver) -> None:
    await driver.submit()
    begun(driver)
    heard(driver, 10.0, 5)
    view = (await driver.http.get("/v1alpha1/jobs/speech/view3d")).json()
    assert (view["dims"], view["declared"]) == ({"dp": 4, "pp": 1, "tp": 1}, False)


async def test_what_each_wrote_last_is_told_where_its_log_is_here(driver: Driver) -> None:
    await driver.submit()
    begun(driver)
    heard(driver, 10.0, 5)
    job = driver.control.state.jobs["speech"]
    for rank, stream, text in ((0, "stdout", "step 4\nstep 5\n\n"), (1, "stderr", "it broke")):
        folder = driver.control.settings.paths.rank("speech", job.attempt, rank)
        folder.mkdir(parents=True)
        (folder / f"{stream}.log").write_text(text)
    rows = (await driver.http.get("/v1alpha1/jobs/speech/ranks")).json()["ranks"]
    assert [row.get("last_line", "") for row in rows] == ["step 5", "it broke", "", ""][: len(rows)]


async def test_however_many_look_it_is_made_once_in_a_while(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    real = driver.control.watch.moment
    monkeypatch.setattr(driver.control.watch, "moment", lambda job: made.append(job) or real(job))
    monkeypatch.setattr(route, "SHARE", 1e6)
    await driver.submit()
    begun(driver)
    heard(driver, 10.0, 5)
    asked = (driver.http.get("/v1alpha1/jobs/speech/ranks") for _ in range(20))
    told = {answer.content for answer in await asyncio.gather(*asked)}
    await driver.http.get("/v1alpha1/jobs/speech/ranks")
    assert (len(made), len(told)) == (1, 1)


async def test_who_has_seen_an_answer_is_told_so_until_there_is_another(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "SHARE", 1e6)
    await driver.submit()
    begun(driver)
    heard(driver, 10.0, 5)
    url = "/v1alpha1/jobs/speech/ranks"
    first = await driver.http.get(url)
    seen = {"If-None-Match": first.headers["ETag"]}
    again = await driver.http.get(url, headers=seen)
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    monkeypatch.setattr(route, "SHARE", 0)
    url = "/v1alpha1/jobs/speech/view3d"
    grid = await driver.http.get(url, headers=seen)
    assert grid.status_code == 200, "another answer has another tag"
    newer = await driver.http.get(url, headers={"If-None-Match": grid.headers["ETag"]})
    assert newer.status_code == 200
    assert newer.headers["ETag"] != grid.headers["ETag"]


async def test_others_have_their_turn_while_an_answer_about_many_ranks_is_made() -> None:
    turns: list[int] = []
    seen: list[int] = []

    def rows() -> Iterator[int]:
        for number in range(2 * route.PIECE + 1):
            seen.append(number)
            yield number

    async def other() -> None:
        while len(seen) <= 2 * route.PIECE:
            turns.append(len(seen))
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    await asyncio.sleep(0)
    work = route.Work()
    found = await work.all_of(rows())
    await beside
    assert found == tuple(range(2 * route.PIECE + 1))
    assert turns == [0, route.PIECE, 2 * route.PIECE]
    assert work.took_s > 0


def test_the_last_line_of_a_long_log_is_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "stdout.log"
    assert route.last_line(log) == ""
    log.write_text("x" * 100_000 + "\nthe end\n")
    assert route.last_line(log) == "the end"
