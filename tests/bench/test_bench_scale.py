"""The benchmark of scale: all scripts come to their end, and what cannot be is refused."""

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.bench.counts import BadSizes, counts
from holdfast.bench.figures import Incomplete, Try, figures
from holdfast.bench.scale import benchmark
from holdfast.bench.scale.benchmark import measure
from holdfast.bench.trees import trees

ROOT = Path(__file__).parents[2]
OVER_SOCKETS = ("connected", "training", "fault")


def _measured(**options: object) -> list[Try]:
    tries: list[Try] = []
    measure(1, tries.append, lambda what: None, sizes=[30], **options)  # type: ignore[arg-type]
    return tries


def _stage(figure: str) -> str:
    """Of a figure, as it is told: `STAGE, NODES nodes: WHAT`; layouts do not count."""
    stage = figure.rpartition(":")[0].rpartition(", ")[0]
    return stage if "sockets" in stage else stage.split(",")[0]


def test_a_job_starts_loses_its_ranks_and_ends_and_every_stage_costs_something() -> None:
    found = figures(_measured())
    stages = {_stage(one.figure) for one in found}
    assert stages == {
        *("come", "start", "exits", "end", "drain", "suspend", "nobody came"),
        *("heartbeat", "fault"),
        *(f"{stage}, sockets" for stage in OVER_SOCKETS),
        *(f"{stage}, sockets with TLS" for stage in OVER_SOCKETS),
    }
    assert all(one.median is not None and one.median > 0 for one in found)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_an_earlier_commit_is_measured_beside_it() -> None:
    found = _measured(before="HEAD", scripts=[("ingested.py", "one group")])
    systems = {one.system for one in found}
    assert systems == {"holdfast", "HEAD"}


async def stands(fleet: object) -> None:
    await asyncio.Event().wait()


async def breaks(fleet: object) -> None:
    raise ValueError("no such layout")


@pytest.mark.parametrize(
    ("beat", "said"),
    [(stands, "within 1 s 0 of 30 faults were decided on"), (breaks, "^no such layout$")],
)
def test_faults_of_which_nobody_tells_are_not_waited_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    beat: Callable[[object], Awaitable[None]],
    said: str,
) -> None:
    monkeypatch.syspath_prepend(benchmark.HERE)
    faulted = importlib.import_module("faulted")
    monkeypatch.setattr(faulted, "WITHIN_S", 1.0)
    monkeypatch.setattr(faulted.Fleet, "beat", beat)
    with pytest.raises((RuntimeError, ValueError), match=said):
        asyncio.run(faulted.measure(30, tmp_path))


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_each_is_measured_by_its_own_sources() -> None:
    with trees("HEAD") as both:
        found = {name: _driver_in(sources) for name, sources in both.items()}
        assert found == {name: sources / "holdfast" / "driver" for name, sources in both.items()}
    assert both["holdfast"] == ROOT / "src"


def _driver_in(sources: Path) -> Path:
    """Where a script of the benchmark finds the driver."""
    asked = [sys.executable, "-c", "import holdfast.driver as it; print(it.__path__[0])"]
    environment = {"PYTHONPATH": str(sources)}
    return Path(subprocess.check_output(asked, env=environment, cwd="/", text=True).strip())


def test_where_there_is_no_holdfast_nothing_is_measured(tmp_path: Path) -> None:
    with pytest.raises(Incomplete, match="there is no Holdfast in"):
        benchmark._run("decided.py", sources=tmp_path, nodes=30, system="some")


def test_a_commit_that_is_none_is_refused() -> None:
    with pytest.raises(Incomplete, match="'no-such-commit' is no commit"):
        _measured(before="no-such-commit")


def test_sizes_are_numbers_from_one_on() -> None:
    assert counts("2000, 500,500") == [500, 2000]
    with pytest.raises(BadSizes, match="numbers with commas"):
        counts("many")
    with pytest.raises(BadSizes, match="has to be 1 or more"):
        counts("0")
