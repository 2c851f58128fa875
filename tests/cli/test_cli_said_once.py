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


def test_of_a_run_that_is_over_it_is_said_what_can_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_STATE", raising=False)
    with pytest.raises(Stopped, match="there is no run under"):
        find.client(find.Target())
    over = RunPaths(find.RUNS / "train-1a2b")
    over.root.mkdir(parents=True)
    for path in (over.journal, over.driver_log):
        path.touch()
    for target, meant in (
        (find.Target(), "train-1a2b (a driver elsewhere: --state DIR, --driver URL)"),
        (find.Target(job="train-1a2b"), "train-1a2b"),
        (find.Target(state=over.root), f"--state {over.root}"),
    ):
        with pytest.raises(Stopped, match="train-1a2b") as stopped:
            find.client(target)
        assert stopped.value.sentence.endswith(" is over.")
        assert stopped.value.fix == f"What became of it: holdfast status {meant}"


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
