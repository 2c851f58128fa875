"""What people read says each thing once."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import asking, find
from holdfast.cli.client import Problem
from holdfast.cli.errors import Stopped
from holdfast.cli.status import lines_of
from holdfast.page import status
from holdfast.protocol.paths import RunPaths

NOWHERE = {"detail": "there is nothing at /x.", "fix": "What can be asked is described at /docs."}


def test_one_way_out_of_two_refusals_is_said_once() -> None:
    told = asking.neither("x", Problem(404, NOWHERE), Problem(404, NOWHERE))
    assert told.fix == NOWHERE["fix"]


def test_a_driver_that_does_not_run_comes_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Stopped) as stopped:
        find.client(find.Target(state=tmp_path))
    assert stopped.value.fix == f"Start one: holdfast driver --state {tmp_path}"
    RunPaths(tmp_path).journal.touch()
    with pytest.raises(Stopped) as again:
        find.client(find.Target(state=tmp_path))
    assert again.value.fix == f"Start it again: holdfast driver --state {tmp_path}"


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("speech waits: it needs 2 nodes", []),
        ("speech is suspended", ["last    speech is suspended"]),
        ("", ["last    nothing was decided yet"]),
    ],
)
def test_that_a_job_waits_is_not_its_last_decision_too(why: str, told: list[str]) -> None:
    job: dict[str, Any] = {
        "name": "speech",
        "why": why,
        "waiting": "it needs 2 nodes; the keeper does not answer",
    }
    assert lines_of(status.decided(job)) == told
    if told:
        assert lines_of(status.decided({**job, "waiting": ""})) == told
