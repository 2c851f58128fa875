"""The list of images that an emulated node knows. Pure.

There is no registry and no file system of an image: a known image is a name, and what runs where
the pod gives no command. Any other image cannot be pulled, and the pod says so.
"""

import shlex
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
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
    """Those of Holdfast, and those given: `NAME` or `NAME=COMMAND ARGUMENT …`."""

    def __init__(self, given: Sequence[str] = ()) -> None:
        parted = (text.partition("=") for text in given)
        more = (Image(name, tuple(shlex.split(command))) for name, _, command in parted)
        self._known = (*more, *OURS)

    def find(self, name: str) -> Image | None:
        """The image called `name`, None where it cannot be pulled."""
        return next((image for image in self._known if fnmatchcase(name, image.pattern)), None)
