"""What PyTorch itself has sharded (FSDP2, tensor parallelism) comes back bit for bit."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from checkpoint_agent import Start  # noqa: E402 - after the check for torch
from checkpoint_job import INTERVAL, Job, persisted  # noqa: E402
from forked import Forked, forked  # noqa: E402

from holdfast.protocol.topology import Topology  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]

RANKS = Path(__file__).parent.parent / "helpers" / "dtensor_ranks.py"


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forked]:
    with forked(tmp_path_factory.mktemp("ranks"), "dtensor_ranks", "torch._dynamo") as made:
        yield made


def run(processes: Forked, do: str, root: Path, *, dp: int, tp: int, **told: Any) -> None:
    told |= {"dp": dp, "tp": tp, "root": str(root), "store": f"file://{root / 'store'}"}
    told |= {"meet": str(root / f"meet-{do}-{dp}-{tp}"), "whole": str(root / "whole.pt")}
    done = processes.run(RANKS, do, json.dumps(told))
    assert done.returncode == 0, done.stderr


SHAPES = [((4, 1), (2, 1)), ((2, 2), (1, 2)), ((2, 1), (4, 1)), ((2, 1), (2, 1))]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("objects", [False, True], ids=["dicts", "objects"])
@pytest.mark.parametrize(
    ("saved", "loaded"),
    SHAPES,
    ids=["4-on-2", "dp2-tp2-on-tp2", "2-on-4", "2-on-2"],
)
def test_ranks_of_another_layout_read_what_they_need(
    tmp_path: Path,
    processes: Forked,
    saved: tuple[int, int],
    loaded: tuple[int, int],
    objects: bool,
) -> None:
    run(processes, "save_alone", tmp_path, dp=saved[0], tp=saved[1], objects=objects)
    told = {"objects": objects, "saved": saved[0] * saved[1]}
    run(processes, "restore_alone", tmp_path, dp=loaded[0], tp=loaded[1], **told)
    shards = sum(path.stat().st_size for path in tmp_path.glob("store/*/*.safetensors"))
    ranks = range(loaded[0] * loaded[1])
    reads = [json.loads((tmp_path / f"read-{rank}.json").read_text()) for rank in ranks]
    if saved != loaded:
        for each in reads:
            assert each["read"] < 0.8 * shards
            assert len(each["ranges"]) == len(set(map(tuple, each["ranges"])))


def test_each_mismatch_of_a_dtensor_is_told_and_nothing_changes(
    tmp_path: Path, processes: Forked
) -> None:
    run(processes, "save_alone", tmp_path, dp=2, tp=1)
    run(processes, "refused", tmp_path, dp=3, tp=1, out=2)
    said = (tmp_path / "refused-0").read_text()
    assert "written by 2 ranks, this job has 3" in said
    assert "model.3.weight: a part of [2, 9] here, but the checkpoint has [1, 9]" in said
    assert "optimizer.state.3.bias.exp_avg: a part of [2] here" in said


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("saved", "loaded"),
    [((4, 1), (2, 2)), ((2, 2), (3, 1))],
    ids=lambda axes: f"dp{axes[0]}-tp{axes[1]}",
)
def test_dtensors_come_back_on_as_many_ranks_and_on_another_number(
    tmp_path: Path, start: Start, processes: Forked, saved: tuple[int, int], loaded: tuple[int, int]
) -> None:
    """Of layers that do not divide by the ranks: some have less, and some have nothing."""
    dp, tp = saved
    job = Job(tmp_path, dp * tp, Topology(dp=dp, tp=tp))
    agent = start()
    agent.give(job.order(*range(dp * tp)))
    run(processes, "save", tmp_path, dp=dp, tp=tp)
    agent.until(persisted(INTERVAL), "committed")
    run(processes, "restore", tmp_path, dp=dp, tp=tp)
    folder = str(job.store / job.whole()[0])
    run(processes, "load", tmp_path, dp=loaded[0], tp=loaded[1], folder=folder)
