"""Nothing is believed that can be looked at: whose a snapshot is, and what a script declares."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402 - needs torch
from holdfast.checkpoint.fetch import Identity  # noqa: E402
from holdfast.checkpoint.layout import MANIFEST, Shard, folder_name  # noqa: E402
from holdfast.checkpoint.manifest import Part, encode, merge  # noqa: E402
from holdfast.checkpoint.memory import Memory  # noqa: E402
from holdfast.checkpoint.restoring import RestoreFailed  # noqa: E402
from holdfast.checkpoint.settings import Settings  # noqa: E402
from holdfast.checkpoint.slot_folder import SlotFolder  # noqa: E402
from holdfast.checkpoint.stores.file import FileStore  # noqa: E402
from holdfast.protocol.messages import Restore  # noqa: E402
from holdfast.protocol.topology import Axis, Topology  # noqa: E402

pytestmark = pytest.mark.torch

TWO = Topology(dp=2)


@dataclass
class Place:
    """A rank inside Holdfast, or outside, where it has no slots."""

    root: Path | None

    def save(self, state: Any, *, replicated: tuple[str, ...] = (), **more: Any) -> bool:
        settings = Settings(job="job", epoch=1, slots=self.root)
        return Checkpointer(settings, replicated=replicated).save(1, state, **more)


@pytest.fixture(params=["inside", "outside"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path / "r0" if request.param == "inside" else None)


# ---------------------------------------------------------------- whose it is


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (Identity("job", 2, TWO), ""),
        (Identity("jab", 2, TWO), "written by job 'jab', this is job 'job'. Give each its own"),
        (Identity("job", 1, Topology()), "written by 1 rank, this job has 2. Run it with as many"),
        (
            Identity("job", 2, Topology(tp=2)),
            "written as dp 1 pp 1 tp 2 (tp, dp, pp from the fastest), this job is dp 2 pp 1 tp 1",
        ),
        (Identity("job", 2, Topology(dp=2, order=(Axis.DP, Axis.TP, Axis.PP))), "written as dp 2"),
    ],
)
def test_it_is_said_how_a_checkpoint_is_another_ones(other: Identity, why: str) -> None:
    told = Identity("job", 2, TWO).refuses(other)
    assert told.startswith(why)
    assert bool(told) == bool(why)


def test_a_checkpoint_of_another_job_is_refused(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    parts = [Part(rank=rank, step=5, epoch=1, world_size=2, topology=TWO) for rank in range(2)]
    store.put(f"{folder_name(5, 1)}/{MANIFEST}", [encode(merge("jab", parts))])
    state = {"w": torch.zeros(2)}
    wanted = Restore(source="store", step=5, epoch=1)
    mine = {"job": "job", "world_size": 2, "topology": TWO, "slots": tmp_path / "r0"}
    rank = Checkpointer(Settings(store_url=tmp_path.as_uri(), restore=wanted, **mine))
    with pytest.raises(RestoreFailed, match="step-00000005-epoch-1: written by job 'jab', this is"):
        rank.restore(state)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"job": "jab"}, "written by job 'job', this is job 'jab'"),
        ({"topology": Topology(tp=2)}, "written as dp 2 pp 1 tp 1"),
        ({"rank": 1}, "it is rank 0's, this is 1"),
    ],
)
def test_a_snapshot_in_memory_of_another_is_refused(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    mine = {"job": "job", "world_size": 2, "topology": TWO, "slots": tmp_path}
    Checkpointer(Settings(epoch=1, **mine)).save(1, {"w": torch.ones(2)})
    Memory("job", {0: str(tmp_path)}, print).look()
    wanted = Restore(source="memory", step=1, epoch=1)
    state = {"w": torch.zeros(2)}
    with pytest.raises(RestoreFailed, match=why):
        Checkpointer(Settings(epoch=2, restore=wanted, **mine | change)).restore(state)
    assert torch.equal(state["w"], torch.zeros(2))


# ---------------------------------------------------------------- what is declared


def test_a_misspelt_key_of_what_is_replicated_is_refused_by_name(place: Place) -> None:
    state = {"model": {"w": torch.ones(2)}, "own": torch.ones(1)}
    with pytest.raises(ValueError, match=r"replicated: 'modle' is no top .* mean 'model'\?"):
        place.save(state, replicated=("own", "modle"))
    with pytest.raises(ValueError, match=r"replicated: 'xyz' is no .* Correct its name"):
        place.save(state, replicated=("xyz",))


@pytest.mark.parametrize(
    ("shard", "why"),
    [
        (Shard((8, 4), (4, 0)), ""),
        (Shard((8, 4), (5, 0)), "'w': dimension 0 is to lie at 5 to 9 of 8. Correct its offsets"),
        (Shard((8, 4), (0, -1)), "'w': dimension 1 is to lie at -1 to 3 of 4"),
        (Shard((8,), (0, 0)), "'w': the tensor has 2 dimensions, its global_shape 1 and its off"),
        (Shard((8, 4, 1), (0, 0, 0)), "'w': the tensor has 2 dimensions, its global_shape 3"),
    ],
)
def test_a_shard_has_to_lie_in_its_whole_tensor(place: Place, shard: Shard, why: str) -> None:
    state = {"w": torch.ones(4, 4)}
    if not why:
        assert place.save(state, shards={"w": shard}) is (place.root is not None)
        return
    with pytest.raises(ValueError, match=f"shards: {why}"):
        place.save(state, shards={"w": shard})


@pytest.mark.parametrize(
    ("shape", "shard", "why"),
    [
        ((0, 4), Shard((5, 4), (6, 0)), ""),
        ((0, 4), Shard((5, 4), (-1, 0)), "dimension 0 is to lie at -1 to -1 of 5"),
        ((0, 4), Shard((5, 4), (6, 1)), "dimension 1 is to lie at 1 to 5 of 4"),
    ],
)
def test_an_empty_shard_may_begin_beyond_its_whole_tensor(
    place: Place, shape: tuple[int, ...], shard: Shard, why: str
) -> None:
    """As where 5 rows are shared out by twos, and the fourth rank has none."""
    state = {"w": torch.ones(shape)}
    if not why:
        assert place.save(state, shards={"w": shard}) is (place.root is not None)
        return
    with pytest.raises(ValueError, match=f"shards: 'w': {why}"):
        place.save(state, shards={"w": shard})


@pytest.mark.parametrize(
    "state",
    [{"a": "x\ud800"}, {"a": {"\udcff": 1}}, {"a": ["\udcff"]}, {"a": {1: 2, "\ud800": 3}}],
    ids=["a text", "a key", "in a list", "an odd key"],
)
def test_a_lone_surrogate_is_refused_with_what_to_do(place: Place, state: Any) -> None:
    with pytest.raises(TypeError, match=r"'a.*a lone surrogate, .* Save its os.fsencode\(\)"):
        place.save(state)


def test_what_holdfast_cannot_save_is_refused_outside_it_too(place: Place) -> None:
    with pytest.raises(TypeError, match="a: a object is neither a tensor, nor JSON"):
        place.save({"a": object()})
    with pytest.raises(TypeError, match=r"a: torch\.float8_e4m3fnuz cannot be saved"):
        place.save({"a": torch.empty(1, dtype=torch.float8_e4m3fnuz)})


def test_outside_a_state_is_looked_at_now_and_then_not_at_each_step() -> None:
    class Counting(dict[str, Any]):
        reads = 0

        def items(self) -> Any:
            Counting.reads += 1
            return super().items()

    checkpointer = Checkpointer(Settings())
    state = {"a": Counting(b=1)}
    for step in range(1, 101):
        assert checkpointer.save(step, state) is False
    assert Counting.reads == 7, "at saves 1, 2, 4, 8, 16, 32, 64"


# ---------------------------------------------------------------- views


def test_conjugated_and_negated_views_come_back_with_their_own_values(tmp_path: Path) -> None:
    base = torch.complex(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    views = {"base": base, "conj": base.conj(), "imag": base.imag, "neg": base.conj().imag}
    expected = {name: one.resolve_conj().resolve_neg().clone() for name, one in views.items()}
    assert views["neg"].is_neg()
    assert views["conj"].is_conj()
    Checkpointer(Settings(job="job", epoch=1, slots=tmp_path)).save(1, views)
    Memory("job", {0: str(tmp_path)}, print).look()
    wanted = Restore(source="memory", step=1, epoch=1)
    back = {name: torch.zeros_like(one) for name, one in expected.items()}
    Checkpointer(Settings(job="job", epoch=2, slots=tmp_path, restore=wanted)).restore(back)
    assert all(torch.equal(back[name], one) for name, one in expected.items())
    assert SlotFolder(tmp_path).sealed()
