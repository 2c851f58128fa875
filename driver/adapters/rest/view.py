"""The base of all answers."""

from pydantic import BaseModel, ConfigDict


class View(BaseModel):
    """Base of the answers."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)
