"""Whose a frame is: the user's, also where his script lies in a clone of Holdfast."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import holdfast.telemetry
from holdfast.telemetry import frames
from holdfast.telemetry.ring import RingReader, RingWriter

HERE = Path(holdfast.telemetry.__file__).absolute()
PACKAGE, CLONE = HERE.parents[1], HERE.resolve().parents[1]


def shown(tmp_path: Path, script: Path) -> str:
    """The line that a rank tells while a library, called by the code of `script`, runs."""
    place: dict[str, Callable[..., None]] = {}
    exec(compile("def train(look):\n    look()\n", script, "exec"), place)
    watched = frames.Frames(RingWriter(tmp_path / "ring", rank=0, epoch=1))
    library: dict[str, Callable[..., None]] = {}
    source = "def look(sample):\n    sample(1.0)\n"
    exec(compile(source, HERE.with_name("hooks.py"), "exec"), library)
    place["train"](partial(library["look"], watched.sample))
    return RingReader(tmp_path / "ring").read().frame


@pytest.mark.parametrize("script", ["train.py", "examples/train.py", "mine/deep/train.py"])
def test_a_script_in_a_clone_of_holdfast_is_the_users(tmp_path: Path, script: str) -> None:
    assert shown(tmp_path, CLONE / script) == "train (train.py:2)"


@pytest.mark.parametrize("folder", [PACKAGE, CLONE])
def test_holdfasts_own_packages_are_not_by_whatever_path(tmp_path: Path, folder: Path) -> None:
    assert "train.py" not in shown(tmp_path, folder / "workload" / "train.py")
