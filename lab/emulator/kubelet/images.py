"""The list of images that an emulated node knows.

There is no registry and no file system of an image: a known image is a name, and what runs where
the pod gives no command. Any other image cannot be pulled, and the pod says so.
"""

import shlex
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple


class Image(NamedTuple):
    """Images whose name matches `pattern` (as a shell matches), and their entry point."""

    pattern: str
    entrypoint: tuple[str, ...] = ()


OURS = (
    Image("*holdfast-driver:*", (sys.executable, "-m", "holdfast.driver.main")),
    Image("*holdfast-executor:*", (sys.executable, "-m", "holdfast.keeper.pod")),
    Image("*holdfast*:*"),
)


class Images:
    """Those of Holdfast, those given (`NAME` or `NAME=COMMAND ARGUMENT …`), and those pushed."""

    def __init__(self, given: Sequence[str] = (), pushed: Path | None = None) -> None:
        """`pushed`: a file with a name in each line, which may come and grow at any time."""
        self._pushed = pushed
        parted = (text.partition("=") for text in given)
        more = (Image(name, tuple(shlex.split(command))) for name, _, command in parted)
        self._known = (*more, *OURS)

    def find(self, name: str) -> Image | None:
        """The image called `name`, None where it cannot be pulled."""
        known = (image for image in self._known if fnmatchcase(name, image.pattern))
        return next(known, Image(name) if name in self._names_pushed() else None)

    def _names_pushed(self) -> list[str]:
        there = self._pushed is not None and self._pushed.exists()
        return self._pushed.read_text().splitlines() if there and self._pushed else []


def pushed_file(state: Path) -> Path:
    """Where the emulated cluster of this folder has the names of images that were pushed."""
    return state / "images"
