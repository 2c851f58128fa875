"""The base of all answers."""

from pydantic import ConfigDict

from holdfast.kit.documented import Documented


class View(Documented):
    """Base of the answers."""

    model_config = ConfigDict(frozen=True)
