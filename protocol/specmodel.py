"""What the models of the job spec have in common. Used by `jobspec` and `podspec` alone."""

from pydantic import ConfigDict
from pydantic_core import PydanticCustomError

from holdfast.kit.documented import Documented


def sentence(why: str, fix: str, *, secret: bool = False) -> PydanticCustomError:
    """A mistake in our words, for `protocol.mistakes` to pass on; a `secret` value is not shown."""
    return PydanticCustomError(
        "sentence", "{why} {fix}", {"why": why, "fix": fix, "secret": secret}
    )


class Model(Documented):
    """Base: unknown fields are mistakes, values are frozen, names are camelCase outside."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        populate_by_name=True,
        alias_generator=lambda name: "".join(
            part if place == 0 else part.capitalize() for place, part in enumerate(name.split("_"))
        ),
    )
