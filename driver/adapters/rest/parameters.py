"""What may stand behind the `?` of an operation. Pure.

Used by the routes, and by the command line where no driver runs. What an operation does not know is
refused with whatever else is wrong, and never passed over: a misspelt filter would show too much.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, get_origin

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from holdfast.driver.adapters.rest.naming import last
from holdfast.driver.core.state.model import Job, Phase
from holdfast.protocol.mistakes import Mistake, shown
from holdfast.protocol.specmodel import sentence

MAX_SEQUENCE = 2**63 - 1
"""The journal's key is a signed integer of 64 bits."""


class Parameters(BaseModel):
    """Base of each operation's own. Fields have their sentences as `description`: pydantic would
    read those below them out of the source at each start of a driver.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")


def given_twice(given: Iterable[tuple[str, str]]) -> list[Mistake]:
    """Of a query, what takes one value and was given several: one of them would win in silence."""
    values: dict[str, list[str]] = {}
    for name, value in given:
        values.setdefault(name, []).append(value)
    names = _taking_one(Parameters)
    return [
        Mistake(field=name, value=shown(several), why="it takes one value.", fix="Give it once.")
        for name, several in values.items()
        if len(several) > 1 and name in names
    ]


def _taking_one(model: type[BaseModel]) -> set[str]:
    """Of all operations: a name means the same for each."""
    fields = model.model_fields.items()
    one = ((name, each) for name, each in fields if get_origin(each.annotation) is not list)
    own = {each.alias or name for name, each in one}
    return own.union(*map(_taking_one, model.__subclasses__()))


class NoParameters(Parameters):
    """Of most operations."""


def _label(text: str) -> str:
    if "=" not in text:
        raise sentence(f"{text!r} is not NAME=VALUE.", "E.g. label=team=speech")
    return text


class JobFilter(Parameters):
    """Which jobs are meant: those that all of this holds for."""

    phase: list[Phase] = Field(default=[], description="May be given more than once.")
    label: list[Annotated[str, AfterValidator(_label)]] = Field(
        default=[], description="name=value; all given must hold."
    )
    name: str = Field(
        default="*",
        description="A name, or a pattern such as train-*; with its namespace or without, where "
        "jobs have one.",
    )

    def takes(self, job: Job) -> bool:
        """Whether it is meant."""
        if self.phase and job.phase not in self.phase:
            return False
        named = any(fnmatchcase(each, self.name) for each in (job.name, last(job.name)))
        return named and _labels(job).issuperset(self.label)


def _labels(job: Job) -> set[str]:
    """As they are asked for: `NAME=VALUE`."""
    metadata = msgspec.json.decode(job.plan.spec or b"{}").get("metadata", {})
    return {f"{name}={value}" for name, value in metadata.get("labels", {}).items()}


class ResumeParameters(Parameters):
    """How a job is to go on."""

    from_step: Annotated[int, Field(ge=0, le=MAX_SEQUENCE)] | None = Field(
        default=None,
        description="Begin there, whatever its store has or had: a step that is found, or 0 for "
        "the beginning. Of a job that waits to learn which checkpoints its store has, is "
        "suspended, or has yet to begin.",
    )


class StopParameters(Parameters):
    """How the ranks of a job are to end."""

    interrupt: bool = Field(
        default=False,
        description="As Ctrl-C in a terminal: ranks that have nothing to do at SIGTERM get SIGINT, "
        "at which Python raises KeyboardInterrupt.",
    )


class JobParameter(Parameters):
    """Of what may be about one job or about all."""

    job: str | None = Field(default=None, description="Only what is about this job.")


AfterSequence = Annotated[int, Field(ge=0, le=MAX_SEQUENCE)]
