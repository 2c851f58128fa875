"""A run that is over waits for what its nodes still write, as long as that makes sense."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from holdfast.cli.errors import Stopped
from holdfast.cli.run import farewell

REST = {"at_rest": True, "present": True}
BUSY = {"at_rest": False, "present": True}
GONE = {"at_rest": False, "present": False}


class Answers:
    """A `Service` whose driver answers with these lists of nodes, the last one again and again."""

    def __init__(self, *answers: list[dict[str, bool]] | None, dies: bool = False) -> None:
        self._answers = list(answers)
        self._dies = dies

    def ask(self, _question: Callable[..., Any]) -> dict[str, Any] | None:
        found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return None if found is None else {"items": found}

    def look_after(self) -> None:
        if self._dies:
            raise Stopped("the driver does not stay up")


def said(answers: Answers, *, patience: int = 1_000, quiet: bool = False) -> list[str]:
    """What a person reads who does not want to wait for longer than `patience` seconds."""
    told: list[str] = []
    seconds: Iterator[int] = count()
    pauses = iter([True] * patience + [False])
    farewell.until_at_rest(
        answers,  # type: ignore[arg-type]
        told.append,
        lambda: next(pauses),
        quiet=quiet,
        now_s=lambda: float(next(seconds)),
    )
    return told


ON_ITS_WAY = "the last checkpoint is on its way to the store; Ctrl-C does not wait for it"


def test_nodes_at_rest_and_nodes_that_are_gone_are_not_waited_for() -> None:
    assert said(Answers([REST, GONE])) == []


def test_what_takes_long_is_said_once_unless_quiet_was_asked_for() -> None:
    busy = [BUSY, REST]
    assert said(Answers(busy, busy, busy, busy, [REST, REST])) == [ON_ITS_WAY]
    assert said(Answers(busy, busy, busy, busy, [REST, REST]), quiet=True) == []


def test_a_driver_that_is_away_or_knows_no_nodes_yet_says_nothing_of_them() -> None:
    assert said(Answers(None, None, [], [], [REST])) == [ON_ITS_WAY]
    assert said(Answers(None, [REST], dies=True)) == []


def test_a_store_that_does_not_answer_is_given_up_and_that_is_said_also_when_quiet() -> None:
    assert said(Answers([BUSY]))[-1].startswith("not waited for, after 21 s: ")
    assert len(said(Answers([BUSY]), quiet=True)) == 1


def test_a_person_need_not_wait() -> None:
    assert said(Answers([BUSY]), patience=3)[-1].startswith("not waited for")
