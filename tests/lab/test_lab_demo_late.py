"""A fault that comes as the job ends: the demo is played again, with more steps."""

from collections.abc import Iterator
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.lab.chaos.injectors import Done
from holdfast.lab.chaos.scenario import Expected, Scenario
from holdfast.lab.chaos.target import NotThere
from holdfast.lab.demo import main
from holdfast.lab.demo.main import Demo, Options
from holdfast.lab.demo.scene import Scene


def nobody(lab: Any, job: str, rng: Any) -> Done:
    raise NotThere("process 7 belongs to no node")


FAULT = Scenario(1, "rank-killed", "a rank is killed", nobody, Expected())


class Played(Demo):
    """A demo whose job goes through these phases, a look each."""

    def __init__(self, phases: Iterator[str]) -> None:
        lab: Any = SimpleNamespace(run=SimpleNamespace(root="/nowhere"))
        view: Any = SimpleNamespace(show=lambda scene: None)
        options = Options(fault=FAULT, steps=60, keep=False, as_json=False, folder=None)
        super().__init__(lab, options, view)
        self._phases = phases

    def _submit(self, *_: Any, **__: Any) -> Any:
        return None

    def _look(self, looker: Any) -> Scene:
        self._scene = replace(self._scene, phase=next(self._phases), step=60)
        return self._scene


def test_a_job_whose_ranks_have_ended_is_over_once_the_driver_knows() -> None:
    assert Played(chain(repeat("Running", 5), repeat("Succeeded")))._train_and_hurt(60) is None


def test_what_is_not_there_of_a_job_that_goes_on_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main, "ENDS_WITHIN_S", 0.0)
    with pytest.raises(NotThere, match="process 7 belongs to no node"):
        Played(repeat("Running"))._train_and_hurt(60)
