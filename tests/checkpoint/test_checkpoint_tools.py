"""`holdfast checkpoint`: what is in a store is listed, shown, verified and converted."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from checkpoint_agent import AgentProcess  # noqa: E402 - after the check for torch
from checkpoint_job import INTERVAL, Job, persisted  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from holdfast.checkpoint.checkpointer import Checkpointer  # noqa: E402
from holdfast.checkpoint.layout import Shard  # noqa: E402
from holdfast.cli import earlier  # noqa: E402
from holdfast.cli.main import main  # noqa: E402
from holdfast.protocol import exitcodes  # noqa: E402
from holdfast.protocol.messages import Restore  # noqa: E402
from holdfast.protocol.topology import Axis, Topology  # noqa: E402

pytestmark = pytest.mark.torch

Capture = pytest.CaptureFixture[str]
WHOLE = torch.arange(24.0).reshape(4, 6)
NEWEST, OLDER = "step-00000020-epoch-1", "step-00000010-epoch-1"
SECOND = "shard-00001-of-00002.safetensors"


def state(rank: int, step: int) -> dict[str, Any]:
    """Half of a tensor, one of the rank's own, and what is no tensor."""
    half = (WHOLE + step)[2 * rank : 2 * rank + 2]
    words = {"position": step, "rates": [0.1, float("inf")], 3: None}
    own, count = torch.full((3,), rank + 0.5), torch.tensor(float(step))  # as an optimizer keeps it
    return {"model": {"w": half}, "own": own, "count": count, "data": words}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two checkpoints of two ranks, in a life, as an agent wrote them."""
    root = tmp_path_factory.mktemp("tools")
    life = root / "ckpt" / "life-1"
    job = Job(root, 2, Topology(tp=2), store_url=life.as_uri())
    agent = AgentProcess()
    agent.give(job.order(0, 1))
    for step in (INTERVAL, 2 * INTERVAL):
        for rank, one in enumerate(job.ranks):
            shards = {"model.w": Shard((4, 6), (2 * rank, 0), (Axis.DP,))}
            assert one.save(step, state(rank, step), shards=shards)
        agent.until(persisted(step), "committed")
    agent.close()
    return root / "ckpt"


@pytest.fixture
def store(kept: Path, tmp_path: Path) -> Path:
    """The life's folder, to be damaged."""
    shutil.copytree(kept, tmp_path / "ckpt")
    return tmp_path / "ckpt" / "life-1"


@pytest.fixture
def asked(capsys: Capture) -> Callable[..., Any]:
    """Type a command with --json; gives its exit code and what it said."""

    def ask(*words: object) -> tuple[int, Any]:
        code = main(["checkpoint", *map(str, words), "--json"])
        return code, json.loads(capsys.readouterr().out)

    return ask


def flip(path: Path, at: int = -3) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def replaced_by_a_folder(path: Path) -> None:
    """A file that cannot be read, for root either."""
    path.unlink()
    path.mkdir()


# ---------------------------------------------------------------- ls


def test_lives_and_their_checkpoints_are_listed_newest_first(store: Path, asked: Any) -> None:
    for url in (store.parent, store.parent.as_uri(), store, f"{store.as_uri()}/"):
        code, told = asked("ls", url)
        assert code == 0
        assert [each["step"] for each in told] == [20, 10]
    for each in told:
        assert (each["status"], each["why"], each["job"], each["ranks"]) == ("whole", "", "job", 2)
        files = (store / f"step-{each['step']:08d}-epoch-1").iterdir()
        assert each["size_bytes"] == sum(file.stat().st_size for file in files)
        assert 0 <= each["age_s"] < 600


def torn(manifest: Path) -> None:
    """One that was still being written."""
    manifest.unlink()
    for part in manifest.parent.glob("part-*"):
        part.unlink()
    (manifest.parent / "part-00001.json").touch()


@pytest.mark.parametrize(
    ("name", "damage", "status", "why"),
    [
        ("manifest.json", torn, "torn", "no manifest.json; 1 of 2 parts of ranks are there"),
        ("manifest.json", flip, "damaged", "its manifest: "),
        (SECOND, Path.unlink, "damaged", f"{SECOND} is not there"),
        (SECOND, lambda path: path.write_bytes(b"x"), "damaged", f"{SECOND}: 1 bytes, the manif"),
        ("manifest.json", replaced_by_a_folder, "unreadable", "Is a directory"),
        ("refused.txt", lambda path: path.write_text("rotten"), "damaged", "refused it: rotten"),
    ],
    ids=["torn", "manifest", "absent", "cut", "unreadable", "refused"],
)
def test_what_is_wrong_with_one_is_listed(
    store: Path, asked: Any, name: str, damage: Any, status: str, why: str
) -> None:
    damage(store / NEWEST / name)
    code, told = asked("ls", store)
    assert code == 0
    assert told[0]["status"] == status
    assert why in told[0]["why"]
    assert told[1]["status"] == "whole"


def test_a_step_that_a_rank_had_lost_is_said(store: Path, asked: Any) -> None:
    (store / NEWEST / "manifest.json").unlink()
    (store / NEWEST / "lost-00001.txt").touch()
    assert asked("ls", store)[1][0]["why"] == "given up: rank 1 had lost the step"


# ---------------------------------------------------------------- show


def test_one_is_shown_with_ranks_tensors_and_values(store: Path, asked: Any) -> None:
    code, told = asked("show", store.parent)
    assert code == 0
    assert (told["step"], told["topology"]) == (20, {"dp": 1, "pp": 1, "tp": 2})
    halves = [one for one in told["tensors"] if one["name"] == "model.w"]
    assert [(one["rank"], one["whole"], one["offsets"], one["shape"]) for one in halves] == [
        (0, [4, 6], [0, 0], [2, 6]),
        (1, [4, 6], [2, 0], [2, 6]),
    ]
    for one, half in zip(halves, (WHOLE + 20).split(2), strict=True):
        data = (store / NEWEST / one["file"]).read_bytes()
        at = one["at_bytes"]
        assert data[at : at + one["size_bytes"]] == half.numpy().tobytes()
    values = told["ranks"][1]["values"]
    assert values["data.position"] == 20
    assert values["data.rates.0"] == 0.1
    assert values["data.rates.1"] == "inf"
    assert values["data.3"] is None
    assert "holdfast.rng.python.version" in values


def test_only_what_one_rank_saved_is_shown(store: Path, asked: Any) -> None:
    told = asked("show", store / OLDER, "--rank", 1)[1]
    assert told["step"] == 10
    assert {one["rank"] for one in told["tensors"]} == {1}
    assert [each["rank"] for each in told["ranks"]] == [1]


def test_the_newest_that_is_whole_is_shown(store: Path, asked: Any) -> None:
    (store / NEWEST / SECOND).unlink()
    assert asked("show", store)[1]["step"] == 10


def test_tables_have_the_same(store: Path, capsys: Capture) -> None:
    assert main(["checkpoint", "ls", str(store)]) == 0
    assert main(["checkpoint", "show", str(store)]) == 0
    out = capsys.readouterr().out
    for words in ("whole", "[4, 6]", "[2, 0]", "model.w", "rank 1  data.position = 20"):
        assert words in out


# ---------------------------------------------------------------- verify


def test_whole_ones_are_read_through(store: Path, asked: Any) -> None:
    code, told = asked("verify", store)
    assert (code, told["ok"]) == (0, True)
    assert [each["status"] for each in told["checkpoints"]] == ["whole", "whole"]
    assert [file["file"] for file in told["checkpoints"][0]["files"]][1:] == [
        "shard-00000-of-00002.safetensors",
        SECOND,
    ]


@pytest.mark.parametrize("at", [9, 400, -3], ids=["header", "first", "last"])
def test_one_flipped_bit_is_found_and_its_file_named(store: Path, asked: Any, at: int) -> None:
    flip(store / OLDER / SECOND, at)
    code, told = asked("verify", store)
    assert (code, told["ok"]) == (exitcodes.FAILED, False)
    newest, older = told["checkpoints"]
    assert newest["status"] == "whole"
    assert older["status"] == "damaged"
    wrong = {file["file"]: file["why"] for file in older["files"] if file["why"]}
    assert list(wrong) == [SECOND]
    assert "its checksum does not match" in wrong[SECOND]
    assert asked("verify", store / NEWEST)[0] == 0


def test_a_torn_one_counts_as_damaged_only_by_itself(
    store: Path, asked: Any, capsys: Capture
) -> None:
    (store / NEWEST / "manifest.json").unlink()
    assert asked("verify", store)[0] == 0
    assert asked("verify", store / NEWEST)[0] == exitcodes.FAILED
    assert main(["checkpoint", "verify", str(store)]) == 0
    assert "torn: it has no manifest" in capsys.readouterr().out


def test_what_the_store_does_not_give_may_be_whole(store: Path, asked: Any) -> None:
    replaced_by_a_folder(store / NEWEST / SECOND)
    (store / NEWEST / SECOND / "x").touch()
    code, told = asked("verify", store / NEWEST)
    assert (code, told["checkpoints"][0]["status"]) == (exitcodes.FAILED, "unreadable")
    replaced_by_a_folder(store / NEWEST / "manifest.json")
    code, told = asked("show", store)
    assert code == exitcodes.FAILED  # and not the one before, for which nobody asked
    assert "manifest.json: Is a directory." in told["error"]
    assert "tried again" not in told["error"]


# ---------------------------------------------------------------- convert


def test_one_file_has_whole_tensors_and_becomes_the_same_folder(
    store: Path, asked: Any, tmp_path: Path
) -> None:
    file, back = tmp_path / "one.safetensors", tmp_path / "back"
    assert asked("convert", store, file)[0] == 0
    loaded = load_file(file)
    assert torch.equal(loaded["model.w"], WHOLE + 20)
    assert torch.equal(loaded["own"], torch.full((3,), 0.5))
    assert torch.equal(loaded["rank-00001.own"], torch.full((3,), 1.5))
    assert asked("convert", file, back) == (0, {"made": f"{back.as_uri()}/{NEWEST}"})
    for path in sorted((back / NEWEST).iterdir()):
        assert path.read_bytes() == (store / NEWEST / path.name).read_bytes(), path.name
    assert (back / NEWEST / "manifest.json").exists()
    job = Job(tmp_path, 2, Topology(tp=2), store_url=back.as_uri())
    empty = state(1, 0) | {"own": torch.zeros(3)}
    restore = Restore(source="store", step=20, epoch=1)
    assert job.checkpointer(1, restore).restore(empty) == 20
    assert torch.equal(empty["model"]["w"], (WHOLE + 20)[2:])
    assert empty["data"] == {"position": 20, "rates": [0.1, float("inf")], 3: None}


def test_what_each_stage_has_of_its_own_stays_apart(asked: Any, tmp_path: Path) -> None:
    """Layers that have the same names in each stage of a pipeline."""
    job = Job(tmp_path, 2, Topology(pp=2))
    agent = AgentProcess()
    agent.give(job.order(0, 1))
    for rank, one in enumerate(job.ranks):
        own = {"w": torch.full((4,), float(rank))}
        assert one.save(INTERVAL, own, shards={"w": Shard((4,), (0,))})
    agent.until(persisted(INTERVAL), "committed")
    agent.close()
    file = tmp_path / "one.safetensors"
    assert asked("convert", job.store, file)[0] == 0
    loaded = load_file(file)
    assert torch.equal(loaded["stage-0.w"], torch.zeros(4))
    assert torch.equal(loaded["stage-1.w"], torch.ones(4))
    assert asked("convert", file, tmp_path / "back")[0] == 0


def test_a_damaged_one_is_not_converted(store: Path, asked: Any, tmp_path: Path) -> None:
    flip(store / NEWEST / SECOND)
    code, told = asked("convert", store / NEWEST, tmp_path / "one.safetensors")
    assert code == exitcodes.FAILED
    assert f"{SECOND}: its checksum does not match" in told["error"]
    assert not list(tmp_path.glob("*.safetensors*"))


def test_a_file_that_changed_since_does_not_become_a_checkpoint(
    store: Path, asked: Any, tmp_path: Path
) -> None:
    file, back = tmp_path / "one.safetensors", tmp_path / "back"
    asked("convert", store, file)
    flip(file)
    code, told = asked("convert", file, back)
    assert code == exitcodes.FAILED
    assert "are not those that were converted" in told["error"]
    assert asked("ls", back)[1][0]["status"] == "torn"


def test_a_file_of_others_becomes_a_model(asked: Any, tmp_path: Path) -> None:
    weights = {"0.weight": torch.rand(3, 4), "0.bias": torch.rand(3)}
    save_file(weights, tmp_path / "theirs.safetensors")
    code, told = asked("convert", tmp_path / "theirs.safetensors", tmp_path / "ckpt", "--step", 7)
    assert (code, told["made"].rpartition("/")[2]) == (0, "step-00000007-epoch-0")
    begun = {"store_url": (tmp_path / "own").as_uri(), "begin_from": (tmp_path / "ckpt").as_uri()}
    model = torch.nn.Sequential(torch.nn.Linear(4, 3))
    rank = Checkpointer(**begun)
    assert rank.restore({"model": model}) == 7
    assert torch.equal(model[0].weight, weights["0.weight"])


def test_what_is_there_is_not_written_over(store: Path, asked: Any, tmp_path: Path) -> None:
    file = tmp_path / "one.safetensors"
    asked("convert", store, file)
    before = file.read_bytes()
    assert asked("convert", store, file)[0] == exitcodes.USAGE
    assert "is there already" in asked("convert", file, store)[1]["error"]
    assert file.read_bytes() == before


@pytest.mark.slow  # torch's checkpoint package takes seconds to import
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_checkpoint_of_dcp_is_taken_over_by_an_unsafe_flag_alone(
    asked: Any, tmp_path: Path
) -> None:
    import torch.distributed.checkpoint as dcp

    theirs = {"model": {"w": torch.rand(5, 2).bfloat16()}, "step": 400, "note": "by DCP"}
    dcp.save(theirs, checkpoint_id=tmp_path / "dcp", no_dist=True)
    words = ("convert", tmp_path / "dcp", tmp_path / "ckpt", "--step", 400)
    code, told = asked(*words)
    assert code == exitcodes.USAGE
    assert "pickle" in told["error"]
    assert not (tmp_path / "ckpt").exists()
    assert "--unsafe-pickle" in asked("ls", tmp_path / "dcp")[1]["fix"]
    assert asked(*words, "--unsafe-pickle")[0] == 0
    assert asked("verify", tmp_path / "ckpt")[0] == 0
    shown = asked("show", tmp_path / "ckpt")[1]
    assert shown["ranks"][0]["values"] == {"step": 400, "note": "by DCP"}
    asked("convert", tmp_path / "ckpt", tmp_path / "one.safetensors")
    assert torch.equal(load_file(tmp_path / "one.safetensors")["model.w"], theirs["model"]["w"])


# ---------------------------------------------------------------- what people type


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("ls", "gopher://bucket/x"), "is no store that this Holdfast knows"),
        (("ls", "nowhere"), "'nowhere' is neither a store's URL, nor a folder, nor a run in runs"),
        (("ls", "last"), "no run in runs has checkpoints"),
        (("ls", "file:///nowhere/at/all"), "there is nothing at file:///nowhere/at/all"),
        (("ls", "theirs"), "it has a.txt, b/"),
        (("verify", "theirs"), "no checkpoint of Holdfast at"),
        (("show", "file:///nowhere/step-00000030-epoch-1"), "there is nothing at"),
        (("show", "ckpt", "--rank", "2"), "--rank 2: step-00000020-epoch-1 is of 2 ranks"),
        (("convert", "ckpt", "elsewhere"), "'elsewhere' is no .safetensors file"),
        (("convert", "no.safetensors", "x"), "cannot read no.safetensors: No such file"),
        (("convert", "bad.safetensors", "x"), "bad.safetensors is no safetensors file"),
        (("convert", "ckpt", "no/folder/x.safetensors"), "cannot write no/folder/x.safetensors"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_meant_is_a_sentence(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Any, words: Any, why: str
) -> None:
    (tmp_path / "theirs" / "b").mkdir(parents=True)
    (tmp_path / "theirs" / "a.txt").touch()
    (tmp_path / "bad.safetensors").write_bytes(b"not a header at all")
    monkeypatch.chdir(tmp_path)
    code, told = asked(*words)
    assert code in (exitcodes.FAILED, exitcodes.USAGE)
    assert why in told["error"]
    assert told["error"].endswith(".")
    assert told["fix"] or "cannot" in why or "safetensors" in why or "knows" in why


def test_a_library_that_is_missing_is_named(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Any
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    code, told = asked("convert", store, tmp_path / "one.safetensors")
    assert code == exitcodes.FAILED
    assert told["error"] == "numpy is not installed here."
    assert "holdfast[train]" in told["fix"]


def test_of_several_lives_one_has_to_be_named(store: Path, asked: Any) -> None:
    shutil.copytree(store, store.parent / "life-2")
    assert {each["life"] for each in asked("ls", store.parent)[1]} == {"life-1", "life-2"}
    code, told = asked("show", store.parent)
    assert code == exitcodes.USAGE
    assert "life-2" in told["fix"]


def test_a_run_is_named_as_people_know_it(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Any
) -> None:
    """By what its driver wrote down: `last` is the newest that has saved anything."""
    monkeypatch.chdir(tmp_path)
    wrote = {
        "train-1": [store.as_uri()],
        "train-2": [(tmp_path / "nothing").as_uri()],
        "train-3": [],
        "two": [store.as_uri(), store.parent.as_uri()],
        "train-4": [(tmp_path / "failed").as_uri()],  # at its first step
    }
    (tmp_path / "failed").mkdir()
    (tmp_path / "failed" / "fence-epoch-2").touch()
    monkeypatch.setattr(earlier, "_stores", lambda root: wrote[root.name])
    for number, name in enumerate(wrote):
        root = tmp_path / ("runs" if name.startswith("train") else ".") / name
        root.mkdir(parents=True)
        (root / "journal.sqlite").touch()
        os.utime(root / "journal.sqlite", (number, number))
    for name in ("last", "train-1", "runs/train-1"):
        code, told = asked("ls", name)
        assert code == 0
        assert told[0]["url"].endswith("/life-1/step-00000020-epoch-1")
    assert "there is nothing at" in asked("ls", "train-2")[1]["error"]
    assert "has no job with a store" in asked("ls", "train-3")[1]["error"]
    assert "has checkpoints of several jobs" in asked("ls", "two")[1]["error"]


# ---------------------------------------------------------------- what lies about in a folder


@pytest.mark.parametrize("name", ["manifest.json", SECOND])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(
    store: Path, asked: Any, name: str
) -> None:
    (store / NEWEST / name).unlink()
    os.mkfifo(store / NEWEST / name)
    newest = asked("ls", store)[1][0]
    assert newest["status"] == ("unreadable" if name == "manifest.json" else "damaged")
    code, told = asked("verify", store)
    assert code == exitcodes.FAILED
    why = [each["why"] for each in told["checkpoints"][0]["files"] if each["why"]]
    assert [each.endswith(f"{name}: it is no file. Remove it.") for each in why] == [True]
    assert "it is no file" in asked("show", store / NEWEST)[1]["error"]
    pipe = store.parent / "pipe.safetensors"
    os.mkfifo(pipe)
    assert "it is no file" in asked("convert", pipe, store)[1]["error"]


def test_links_that_lead_nowhere_are_passed_over(store: Path, asked: Any) -> None:
    for folder in (store, store.parent, store / NEWEST):
        (folder / "step-00000030-epoch-1").symlink_to("step-00000030-epoch-1")
        (folder / "gone").symlink_to("nowhere")
    for url in (store.parent, store):
        code, told = asked("ls", url)
        assert code == 0
        assert [(each["step"], each["status"]) for each in told] == [(20, "whole"), (10, "whole")]


def test_checkpoints_beside_lives_are_listed_too_and_come_first(store: Path, asked: Any) -> None:
    shutil.copytree(store / OLDER, store.parent / OLDER)
    told = asked("ls", store.parent)[1]
    assert [(each["life"], each["step"]) for each in told] == [
        ("", 10),
        ("life-1", 20),
        ("life-1", 10),
    ]
    assert asked("show", store.parent)[1]["step"] == 10
    assert len(asked("verify", store.parent)[1]["checkpoints"]) == 3
