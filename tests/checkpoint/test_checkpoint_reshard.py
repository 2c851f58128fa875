"""A checkpoint of one layout is restored by ranks of another, each of which reads what it needs."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from checkpoint_agent import AgentProcess  # noqa: E402 - after the check for torch
from checkpoint_job import INTERVAL, Job, persisted  # noqa: E402

from holdfast.checkpoint import ranges as ranges_module  # noqa: E402
from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.fetch import Refused  # noqa: E402
from holdfast.checkpoint.layout import Shard  # noqa: E402
from holdfast.checkpoint.load_state import Mismatch  # noqa: E402
from holdfast.checkpoint.manifest import File  # noqa: E402
from holdfast.checkpoint.ranges import Ranges  # noqa: E402
from holdfast.checkpoint.restoring import CheckpointRefused  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.checkpoint.shards import Sums  # noqa: E402
from holdfast.checkpoint.stores.file import FileStore  # noqa: E402
from holdfast.protocol.messages import EARLIER, Restore  # noqa: E402
from holdfast.protocol.topology import Axis, Topology  # noqa: E402

pytestmark = pytest.mark.torch

LAYERS = 2
WHOLE = {f"layers.{n}.w": torch.arange(48.0).reshape(8, 6) + 100 * n for n in range(LAYERS)}
WHOLE |= {f"layers.{n}.norm": torch.arange(6.0) - n for n in range(LAYERS)}


def held(topology: Topology, rank: int) -> tuple[dict[str, Any], dict[str, Shard]]:
    """What a rank holds: its stage's layers, of each its rows, and of what it is the same."""
    at = topology.coordinates(rank)
    state: dict[str, Any] = {"model": {}, "moments": {}}
    shards = {}
    for name, whole in WHOLE.items():
        if int(name.split(".")[1]) * topology.pp // LAYERS != at[Axis.PP]:
            continue
        rows = len(whole) // topology.tp if name.endswith("w") else len(whole)
        first = at[Axis.TP] * rows if name.endswith("w") else 0
        axes = (Axis.DP,) if name.endswith("w") else (Axis.DP, Axis.TP)
        for key, factor in (("model", 1), ("moments", 2)):
            state[key][name] = whole[first : first + rows] * factor
            place = (first, *[0] * (whole.dim() - 1))
            shards[f"{key}.{name}"] = Shard(tuple(whole.shape), place, axes)
    state["data"] = {"position": 7}
    state["count"] = torch.tensor(rank)
    return state, shards


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """By two stages of two tensor-parallel ranks, each of them twice."""
    topology = Topology(tp=2, pp=2, dp=2)
    job = Job(tmp_path_factory.mktemp("reshard"), 8, topology)
    agent = AgentProcess()
    agent.give(job.order(*range(8)))
    for rank, one in enumerate(job.ranks):
        state, shards = held(topology, rank)
        assert one.save(INTERVAL, state, shards=shards)
    agent.until(persisted(INTERVAL), "committed")
    agent.close()
    return job.store.as_uri()


def checkpointer(url: str, root: Path, topology: Topology, rank: int) -> Checkpointer:
    return Checkpointer(
        Settings(
            job="another",
            rank=rank,
            world_size=topology.world_size,
            topology=topology,
            slots=root / f"r{rank}",
            begin_from=url,
            restore=Restore(source="store", step=INTERVAL, epoch=EARLIER),
        )
    )


def zeros(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: zeros(part) for key, part in value.items()}
    return torch.zeros_like(value) if isinstance(value, torch.Tensor) else None


@pytest.mark.parametrize(
    "topology",
    [
        Topology(),
        Topology(tp=4),
        Topology(pp=2),
        Topology(tp=2, pp=2),
        Topology(dp=3, tp=8),
        Topology(tp=2, pp=2, dp=2, order=(Axis.PP, Axis.TP, Axis.DP)),
    ],
    ids=["1", "tp4", "pp2", "tp2-pp2", "dp3-tp8", "other-order"],
)
def test_each_rank_has_its_part_of_it(saved: str, tmp_path: Path, topology: Topology) -> None:
    for rank in range(topology.world_size):
        state, shards = held(topology, rank)
        into = zeros(state)
        assert (
            checkpointer(saved, tmp_path, topology, rank).restore(into, shards=shards) == INTERVAL
        )
        for key in ("model", "moments"):
            assert list(into[key]) == list(state[key])
            for name, one in state[key].items():
                assert torch.equal(into[key][name], one), (rank, name)
        assert into["data"] == {"position": 7}
        assert int(into["count"]) == (rank if rank < 8 else 0)


def test_what_is_not_cut_is_put_together(saved: str, tmp_path: Path) -> None:
    """A rank that says nothing of its tensors has them whole."""
    into = {"model": zeros(WHOLE)}
    checkpointer(saved, tmp_path, Topology(), 0).restore(into)
    for name, whole in WHOLE.items():
        assert torch.equal(into["model"][name], whole)


def test_each_mismatch_is_listed_and_nothing_changes(saved: str, tmp_path: Path) -> None:
    into: dict[str, Any] = {
        "model": {
            "layers.0.w": torch.zeros(4, 6),
            "layers.1.w": torch.zeros(8, 6),
            "layers.0.norm": torch.zeros(5),
            "layers.9.w": torch.zeros(1),
        }
    }
    shards = {"model.layers.0.w": Shard((9, 6), (0, 0))}
    with pytest.raises(Mismatch) as raised:
        checkpointer(saved, tmp_path, Topology(tp=2), 0).restore(into, shards=shards)
    said = str(raised.value)
    assert "written by 8 ranks, this job has 2" in said
    assert "model.layers.0.w: a part of [9, 6] here, but the checkpoint has [8, 6]" in said
    assert "model.layers.0.norm: torch.float32 [5] here, but the checkpoint has" in said
    assert "model.layers.9.w: not in the checkpoint" in said
    assert not into["model"]["layers.1.w"].any()


def save_as(root: Path, states: list[dict[str, Any]], topology: Topology, **shards: Shard) -> str:
    job = Job(root, len(states), topology)
    agent = AgentProcess()
    agent.give(job.order(*range(len(states))))
    for one, state in zip(job.ranks, states, strict=True):
        named = {name.replace("_", "."): shard for name, shard in shards.items()}
        assert one.save(INTERVAL, state, shards=named)
    agent.until(persisted(INTERVAL), "committed")
    agent.close()
    return job.store.as_uri()


@pytest.mark.parametrize("same", [True, False])
def test_what_nobody_declared_has_to_be_the_same_on_all(tmp_path: Path, same: bool) -> None:
    states = [{"w": torch.arange(4.0) + (0 if same else rank)} for rank in range(2)]
    url = save_as(tmp_path, states, Topology(dp=2))
    into = {"w": torch.zeros(4)}
    one = checkpointer(url, tmp_path, Topology(), 0)
    if same:
        one.restore(into)
        assert torch.equal(into["w"], torch.arange(4.0))
        return
    with pytest.raises(Mismatch, match="w: each rank had saved its own, and they differ"):
        one.restore(into)
    assert not into["w"].any()


def test_as_many_ranks_on_the_same_axes_may_hold_other_parts(tmp_path: Path) -> None:
    """Two halves, and each rank wants the other one's now."""
    whole, topology = torch.arange(8.0), Topology(tp=2)
    job, agent = Job(tmp_path, 2, topology), AgentProcess()
    agent.give(job.order(0, 1))
    for rank, one in enumerate(job.ranks):
        part = {"w": whole[4 * rank : 4 * rank + 4].clone()}
        assert one.save(INTERVAL, part, shards={"w": Shard((8,), (4 * rank,))})
    agent.until(persisted(INTERVAL), "committed")
    agent.close()
    for rank in range(2):
        first, into = 4 * (1 - rank), {"w": torch.zeros(4)}
        shards = {"w": Shard((8,), (first,))}
        checkpointer(job.store.as_uri(), tmp_path, topology, rank).restore(into, shards=shards)
        assert torch.equal(into["w"], whole[first : first + 4])


def test_a_rank_that_is_new_keeps_its_own_random_generators(saved: str, tmp_path: Path) -> None:
    topology = Topology(dp=3, tp=4)
    for rank, own in ((0, False), (11, True)):
        torch.manual_seed(1_234)
        before = torch.get_rng_state()
        state, shards = held(topology, rank)
        checkpointer(saved, tmp_path, topology, rank).restore(zeros(state), shards=shards)
        assert torch.equal(torch.get_rng_state(), before) is own, rank


def test_stages_that_have_the_same_names_are_not_mixed_up(tmp_path: Path) -> None:
    states = [{"w": torch.full((4,), float(rank))} for rank in range(2)]
    url = save_as(tmp_path, states, Topology(pp=2), w=Shard((4,), (0,)))
    with pytest.raises(Mismatch, match="w: each stage of the pipeline has one of its own"):
        checkpointer(url, tmp_path, Topology(), 0).restore({"w": torch.zeros(4)})


def test_a_range_that_is_damaged_is_refused_before_anything_changes(
    saved: str, tmp_path: Path
) -> None:
    import shutil

    shutil.copytree(saved.removeprefix("file://"), tmp_path / "store")
    shard = next((tmp_path / "store").glob("*/shard-00004-*"))
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    into = {"model": zeros(WHOLE)}
    url = (tmp_path / "store").as_uri()
    with pytest.raises(CheckpointRefused, match=r"shard-00004.*its checksum does not match"):
        checkpointer(url, tmp_path, Topology(), 0).restore(into)
    assert not any(one.any() for one in into["model"].values())
    assert (shard.parent / "refused.txt").exists()


# ---------------------------------------------------------------- ranges


@given(st.binary(max_size=200), st.integers(1, 70), st.lists(st.integers(1, 50), max_size=9))
def test_sums_do_not_depend_on_how_the_bytes_come(data: bytes, block: int, cuts: list[int]) -> None:
    import xxhash

    sums, at = Sums(block), 0
    for cut in [*cuts, len(data)]:
        sums.update(data[at : at + cut])
        at += cut
    blocks = [data[n : n + block] for n in range(0, len(data), block)]
    assert sums.blocks == tuple(map(xxhash.xxh3_64_hexdigest, blocks))
    assert sums.whole == xxhash.xxh3_64_hexdigest(data)


def file_of(root: Path, data: bytes, block: int) -> File:
    (root / "f").mkdir(exist_ok=True)
    (root / "f" / "a").write_bytes(data)
    sums = Sums(block)
    sums.update(data)
    return File("a", len(data), sums.whole, block if block else 0, sums.blocks)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.integers(0, 99), st.integers(1, 40))
def test_any_range_is_read_of_its_blocks_alone(
    tmp_path_factory: pytest.TempPathFactory, one: int, other: int, block: int
) -> None:
    root = tmp_path_factory.mktemp("ranges")
    data = bytes(range(100))
    file = file_of(root, data, block)
    begin, end = sorted((one, other))
    ranges = Ranges(FileStore(str(root)), "f")
    assert bytes(ranges.read(file, begin, end)) == data[begin:end]
    assert {n // block for n in range(begin, end)} == {number for _, number in ranges._blocks}
    ranges.close()


def test_a_shard_without_sums_of_blocks_is_read_whole(tmp_path: Path) -> None:
    file = file_of(tmp_path, bytes(range(100)), 10)
    plain = File(file.name, file.size_bytes, file.xxh3)
    ranges = Ranges(FileStore(str(tmp_path)), "f")
    assert bytes(ranges.read(plain, 5, 9)) == bytes(range(5, 9))
    ranges.close()
    (tmp_path / "f" / "a").write_bytes(bytes(100))
    ranges = Ranges(FileStore(str(tmp_path)), "f")
    with pytest.raises(Refused, match="checksum"):
        ranges.read(plain, 5, 9)
    ranges.close()


def test_ranges_are_read_at_once(tmp_path: Path) -> None:
    """As many as there are threads: each waits until the others are there, too."""
    from threading import Barrier

    meet = Barrier(ranges_module.THREADS)

    class Slow(FileStore):
        def get(self, path: str, **range_: Any) -> Iterator[bytes]:
            meet.wait(60)
            return super().get(path, **range_)

    file = file_of(tmp_path, bytes(80), 10)
    ranges = Ranges(Slow(str(tmp_path)), "f")
    assert ranges.read(file, 0, 80) == bytes(80)
    ranges.close()


def test_the_parts_of_any_two_layouts_are_the_whole() -> None:
    """Of the table above: each element of each tensor is held, on every replica."""
    for tp, pp in product((1, 2, 4), (1, 2)):
        topology = Topology(tp=tp, pp=pp)
        count = sum(
            one.numel()
            for rank in range(topology.world_size)
            for name, one in held(topology, rank)[0]["model"].items()
            if name.endswith("w")
        )
        assert count == sum(one.numel() for name, one in WHOLE.items() if name.endswith("w"))
