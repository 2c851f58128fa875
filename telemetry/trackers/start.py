"""Which start of a rank this is, from its environment, and how a tool is told of it."""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from holdfast.protocol import rankenv
from holdfast.protocol.messages import Restore

LONGEST_ID = 48
"""Of a life's name in a run's id: W&B takes 64 characters with the rest (its SDK's own check)."""


class Start(NamedTuple):
    """`life`: no other submission of a job has it; "" where none is known. `step`: to begin at."""

    job: str
    life: str
    rank: int
    attempt: int
    because: str
    step: int

    @property
    def again(self) -> bool:
        return self.attempt > 1

    @property
    def sentence(self) -> str:
        return f"attempt {self.attempt} from step {self.step}, {self.because or 'of no fault'}"

    def run(self, nth: int) -> str:
        """A name for the rank's nth run, the same in each attempt of the job."""
        life = f"{self.job}-{self.life.removeprefix('life-')}"
        life = re.sub(r"[^A-Za-z0-9_-]", "-", life)[-LONGEST_ID:].lstrip("-")
        others = (f"r{self.rank}" if self.rank else "", f"n{nth}" if nth > 1 else "")
        return "-".join(filter(None, (life, *others)))


class Runs:
    """Counts the runs that this process begins, from one in each attempt."""

    def __init__(self) -> None:
        self._attempt, self._begun = 0, 0

    def next(self, start: Start) -> str:
        """The name of the next one."""
        if start.attempt != self._attempt:
            self._attempt, self._begun = start.attempt, 0
        self._begun += 1
        return start.run(self._begun)


def start() -> Start:
    """Of this process, now: it may become the rank of another attempt."""
    env = os.environ
    restore = env.get(rankenv.RESTORE, "")
    return Start(
        job=env.get(rankenv.JOB, ""),
        life=env.get(rankenv.LIFE, ""),
        rank=int(env.get("RANK", "0")),
        attempt=int(env.get(rankenv.ATTEMPT, "1")),
        because=env.get(rankenv.BECAUSE, ""),
        step=msgspec.json.decode(restore, type=Restore).step if restore else 0,
    )


def added(
    inner: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    more: Mapping[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with `more` of them, whatever was given by its place."""
    if not more:
        return arguments, named
    return (), {**inspect.signature(inner).bind_partial(*arguments, **named).arguments, **more}


@contextmanager
def harmless(what: str) -> Iterator[None]:
    """Whatever a tool objects to, the script goes on as if it had not been asked; it is said."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 it is ours, and not the user's
        say(f"cannot {what}: {type(error).__name__}: {error}")


def say(sentence: str) -> None:
    """Once each, in the log of the rank."""
    if sentence not in _said:
        _said.add(sentence)
        print(f"holdfast: {sentence}", file=sys.stderr)  # noqa: T201


_said: set[str] = set()
