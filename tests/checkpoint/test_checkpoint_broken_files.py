"""Files of memory and store that are cut, zeroed, emptied, deleted or swapped, one or more at once:
what is restored is the step that was asked for, or it is refused.
"""

import random
import shutil
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from checkpoint_job import Job  # noqa: E402 - after the check for torch

from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.fetch import whole  # noqa: E402
from holdfast.checkpoint.memory import Memory  # noqa: E402
from holdfast.checkpoint.restoring import RestoreFailed  # noqa: E402
from holdfast.checkpoint.stores.file import FileStore  # noqa: E402
from holdfast.checkpoint.upload import Upload  # noqa: E402
from holdfast.protocol.messages import Restore, Snapshot, Stored  # noqa: E402

pytestmark = pytest.mark.torch

STEPS = (10, 20, 30)
RANKS = (0, 1)
SEEDS = 120


def content(step: int, rank: int) -> dict[str, object]:
    """What ranks share, and what they have alone."""
    shared = {"a": torch.full((300,), float(step)), "b": torch.full((50,), step + 0.5)}
    return {"model": shared, "own": torch.tensor([step + rank / 10])}


def offered(root: Path, notes: list[str]) -> tuple[Snapshot, ...]:
    """What an agent that has just begun believes of what lies in memory."""
    return Memory("job", {rank: str(root / f"r{rank}") for rank in RANKS}, notes.append).look()


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps of two ranks, in memory and in the store."""
    root = tmp_path_factory.mktemp("good")
    job = Job(root, len(RANKS))
    for step in STEPS:
        for rank in RANKS:
            settings = job.checkpointer(rank)._settings
            assert Checkpointer(settings, replicated=["model"]).save(step, content(step, rank))
        offered(root, [])
        upload = Upload(job.order(*RANKS), tell=lambda _: None, go_on=lambda: None)
        for _ in range(3):
            upload.advance()
        assert upload.persisted_step == step
    return root


@pytest.fixture
def root(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "root"))


def restored(root: Path, source: str, step: int, rank: int) -> bool:
    """False where it is refused, with nothing changed."""
    job = Job(root, len(RANKS))
    job.epoch = 2
    state = content(0, rank)
    wanted = Restore(source=source, step=step, epoch=1)
    try:
        assert job.checkpointer(rank, wanted).restore(state) == step
    except RestoreFailed:
        step = 0
    right = content(step, rank)
    assert torch.equal(state["own"], right["own"])  # type: ignore[arg-type]
    for name, tensor in right["model"].items():  # type: ignore[attr-defined]
        assert torch.equal(state["model"][name], tensor)  # type: ignore[index]
    return step > 0


def break_some(dice: random.Random, root: Path) -> None:
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    for path in dice.sample(files, dice.choice([1, 1, 2, 2, 3])):
        data = bytearray(path.read_bytes())
        at = dice.randrange(len(data) or 1)
        match dice.choice(["cut", "zero", "flip", "swap", "swap", "empty", "delete", "longer"]):
            case "cut":
                path.write_bytes(data[:at])
            case "zero":
                size = dice.choice([1, 16, 4096])
                path.write_bytes(data[:at] + bytes(len(data[at : at + size])) + data[at + size :])
            case "flip" if data:
                data[at] ^= 1 << dice.randrange(8)
                path.write_bytes(data)
            case "swap":
                alike = [other for other in files if other.suffix == path.suffix]
                swap(path, dice.choice([each for each in alike if each.exists()]))
            case "delete":
                path.unlink()
            case "longer":
                path.write_bytes(data + b"x")
            case _:
                path.write_bytes(b"")


def swap(one: Path, other: Path) -> None:
    mine, theirs = one.read_bytes(), other.read_bytes()
    one.write_bytes(theirs)
    other.write_bytes(mine)


def test_whatever_is_broken_nothing_wrong_is_restored(good: Path, tmp_path: Path) -> None:
    taken = 0
    for seed in range(SEEDS):
        root = Path(shutil.copytree(good, tmp_path / str(seed)))
        break_some(random.Random(seed), root)
        told = whole(FileStore(str(root / "store")))
        found = [("store", one.step) for one in told if isinstance(one, Stored)]
        points = [(source, step, rank) for source, step in found for rank in RANKS]
        points += [("memory", one.step, one.rank) for one in offered(root, [])]
        taken += sum(restored(root, *point) for point in points)
        shutil.rmtree(root)
    assert taken > 5 * SEEDS, "what is not broken is restored"


def slot_file(root: Path, step: int, suffix: str) -> Path:
    """Of rank 0; slots are taken in turn."""
    return root / "r0" / f"slot-{STEPS.index(step)}.{suffix}"


def steps(found: tuple[Snapshot, ...]) -> list[int]:
    return [one.step for one in found if one.rank == 0]


def test_a_slot_whose_data_is_gone_does_not_end_the_agent(root: Path) -> None:
    slot_file(root, 30, "data").write_bytes(b"")
    notes: list[str] = []
    assert steps(offered(root, notes)) == [20, 10]
    assert len(notes) == 1
    assert "step 30 in memory has changed since it was sealed" in notes[0]
    assert steps(offered(root, notes)) == [20, 10]
    assert len(notes) == 1, "it is said once"


def test_seals_that_have_changed_places_are_not_believed(root: Path) -> None:
    swap(slot_file(root, 10, "seal"), slot_file(root, 30, "seal"))
    assert steps(offered(root, [])) == [20]


def test_a_checksum_that_is_not_what_was_put_is_not_taken_anew(root: Path) -> None:
    path = slot_file(root, 20, "sum")
    path.write_bytes(path.read_bytes()[:-1])
    data = slot_file(root, 20, "data")
    data.write_bytes(data.read_bytes()[:-8] + bytes(8))
    assert steps(offered(root, [])) == [30, 10]
