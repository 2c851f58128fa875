"""A driver that can write nothing down is said on the terminal, and a stop does not wait for it."""

from typing import Any

from holdfast.cli.client import Readiness
from holdfast.cli.run.hindered import MORE_S, Hindered

WELL = Readiness(ready=True, why="", stale=False)
SHORT = Readiness(ready=False, why="the disk under /run is full: no new work.", stale=False)
FULL = Readiness(ready=False, why="nothing could be written in /run.", stale=True)
GRACE_S = 10.0


class Asked:
    """A `Service` whose driver answers `found`; None: it is away."""

    def __init__(self) -> None:
        self.found: Readiness | None = WELL

    def ask(self, _question: Any) -> Readiness | None:
        return self.found


def made() -> tuple[Asked, Hindered, list[str]]:
    asked, said = Asked(), []  # type: tuple[Asked, list[str]]
    return asked, Hindered(asked, said.append, grace_s=GRACE_S, now=0.0), said  # type: ignore[arg-type]


def test_what_hinders_the_driver_is_said_once_and_again_when_it_changes() -> None:
    asked, hindered, said = made()
    for now, found in enumerate([WELL, SHORT, SHORT, FULL, None, FULL, WELL, WELL]):
        asked.found = found
        assert not hindered.look(float(now), stopped=False)
    assert said == [SHORT.why, FULL.why, "that is over: the driver decides again"]


def test_a_stop_that_the_driver_cannot_take_is_in_vain_after_its_grace_and_a_little() -> None:
    asked, hindered, said = made()
    asked.found = FULL
    assert not hindered.look(1_000.0, stopped=False), "nobody wants it to end"
    assert not hindered.look(1_000.0 + GRACE_S + MORE_S, stopped=True)
    assert hindered.look(1_001.0 + GRACE_S + MORE_S, stopped=True)
    assert said[-1] == (
        "the driver could not end the job within 15 s, so all of it is taken down now: "
        "nothing could be written in /run."
    )


def test_a_stop_waits_for_a_driver_that_decides_however_long() -> None:
    asked, hindered, _ = made()
    for now, found in enumerate([WELL, None, FULL, WELL, SHORT, SHORT]):
        asked.found = found
        assert not hindered.look(now * 6.0, stopped=True)
    asked.found = None
    assert hindered.look(5 * 6.1 + GRACE_S + MORE_S, stopped=True)
