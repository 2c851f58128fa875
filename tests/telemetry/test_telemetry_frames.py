"""Whose a frame is: the user's, also where his script lies in a clone of Holdfast. And what moves:
a loop that computes at one line does, one that only turns does not."""

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import holdfast.telemetry
from holdfast.telemetry import frames
from holdfast.telemetry.ring import RingReader, RingWriter

HERE = Path(holdfast.telemetry.__file__).absolute()
OURS = HERE.with_name("hooks.py")
PACKAGE, CLONE = HERE.parents[1], HERE.resolve().parents[1]


def shown(tmp_path: Path, script: Path, library: Path = OURS) -> str:
    """The line that a rank tells while a library, called by the code of `script`, runs."""
    place: dict[str, Callable[..., None]] = {}
    exec(compile("def train(look):\n    look()\n", script, "exec"), place)
    watched = frames.Frames(RingWriter(tmp_path / "ring", rank=0, epoch=1))
    inner: dict[str, Callable[..., None]] = {}
    source = "def look(sample):\n    sample(1.0)\n"
    exec(compile(source, library, "exec"), inner)
    place["train"](partial(inner["look"], watched.sample))
    return RingReader(tmp_path / "ring").read().frame


@pytest.mark.parametrize("script", ["train.py", "examples/train.py", "mine/deep/train.py"])
def test_a_script_in_a_clone_of_holdfast_is_the_users(tmp_path: Path, script: str) -> None:
    assert shown(tmp_path, CLONE / script) == "train (train.py:2)"


@pytest.mark.parametrize("folder", [PACKAGE, CLONE])
def test_holdfasts_own_packages_are_not_by_whatever_path(tmp_path: Path, folder: Path) -> None:
    assert "train.py" not in shown(tmp_path, folder / "workload" / "train.py")


HASH = "cuw65hk3b45prlukgjunitc3tpgnsa6eyw7hizxkbxptar62qqh7"


@pytest.mark.parametrize(
    "library",
    [
        pytest.param("/home/u/env/lib/python3.11/site-packages/torch/a.py", id="a venv's"),
        pytest.param("/usr/local/lib/python3.12/dist-packages/torch/a.py", id="as in NVIDIA's"),
        pytest.param("/usr/lib/python3/dist-packages/numpy/a.py", id="Debian's"),
        pytest.param("<eval_with_key>.1", id="a graph of torch.compile's"),
        pytest.param(f"/tmp/torchinductor_u/uw/{HASH}.py", id="code of Inductor's"),
        pytest.param(f"/scratch/cache/uw/{HASH}.py", id="the same in another folder"),
    ],
)
def test_what_is_installed_or_generated_is_no_line_of_the_users(
    tmp_path: Path, library: str
) -> None:
    assert shown(tmp_path, Path("/home/u/train.py"), Path(library)) == "train (train.py:2)"


@pytest.mark.parametrize("script", ["uw/cuw.py", f"vx/{HASH}.py", "<stdin>", "packages/train.py"])
def test_what_only_looks_like_it_is_the_users(tmp_path: Path, script: str) -> None:
    assert shown(tmp_path, Path(script)) == f"train ({Path(script).name}:2)"


LOOKS = 5_000
"""Some hundreds of a loop's turns, in a tenth of a second."""
LONGEST = 100 * LOOKS
"""Until it has moved, on a machine that gives its thread no core for seconds."""


def stacks_seen(tmp_path: Path, source: str, looks: int = LOOKS) -> set[int]:
    """Of a thread that runs `spins(on)` of `source`: two of many looks that differ, or one."""
    place: dict[str, Callable[..., None]] = {}
    exec(compile(source, "train.py", "exec"), place)
    on, inside, seen = [True], threading.Event(), set[int]()
    ring, watched = RingWriter(tmp_path / "ring", rank=0, epoch=1), list[frames.Frames]()

    def run() -> None:
        watched.append(frames.Frames(ring))
        inside.set()
        place["spins"](on)

    thread, reader = threading.Thread(target=run), RingReader(tmp_path / "ring")
    thread.start()
    try:
        inside.wait()
        while not reader.read().frame.startswith("spins "):
            watched[0].sample(0.0)
        for _ in range(looks):
            os.stat(tmp_path)  # lets the other thread run
            watched[0].sample(1.0)
            seen.add(reader.stack())
            if len(seen) > 1:
                break
        return seen
    finally:
        on.clear()
        thread.join()
        reader.close()


def test_a_loop_of_one_line_that_computes_moves(tmp_path: Path) -> None:
    """Bytes are hashed without the interpreter's lock, as tensors are multiplied."""
    source = """
from hashlib import md5, sha256
data = bytes(1 << 16)
def spins(on):
    while on: md5(data); sha256(data)
"""
    assert len(stacks_seen(tmp_path, source, LONGEST)) > 1


def test_a_loop_that_only_turns_does_not(tmp_path: Path) -> None:
    assert len(stacks_seen(tmp_path, "def spins(on):\n    while on: pass\n")) == 1
