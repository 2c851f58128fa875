"""The notebook of the docs runs as it stands, with a real driver, node and job."""

import os
from pathlib import Path
from typing import Any

import pytest
from shells import shell_in
from waiting import eventually

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook" / "follow_a_job.py"

pytestmark = pytest.mark.slow


def test_it_submits_follows_and_reads_an_incident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with shell_in(tmp_path) as shell:
        shell.start("driver", "--state", "state", "--local-nodes", "1")
        eventually((tmp_path / "state/driver.json").exists, "the driver answers")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOLDFAST_STATE", os.fspath(tmp_path / "state"))
        told: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(NOTEBOOK.read_text(), NOTEBOOK.name, "exec"), told)
    assert told["seen"].phase == "Succeeded"
    assert told["losses"][0] > told["losses"][-1]
    assert len(told["attempts"]) == 2
    assert len(told["restarts"]) == 1
    (incident,) = told["incidents"]
    assert "SIGSEGV" in incident.summary
    assert told["kinds"][0] == "JobSubmitted"
    said = capsys.readouterr().out
    assert "died of SIGSEGV" in said
