"""Commands against a driver that really runs, found by its state folder; and after it has ended."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import DEADLINE_S, eventually

from holdfast.cli.main import main
from holdfast.protocol import exitcodes


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state folder of a running driver that has no nodes."""
    folder = tmp_path_factory.mktemp("driver")
    command = [sys.executable, "-m", "holdfast.cli", "driver", "--state", str(folder)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        eventually((folder / "driver.json").exists, "the driver answers")
        yield folder
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE_S)


@pytest.fixture
def here(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own to type in, with HOLDFAST_STATE set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_STATE", str(state))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def job(here: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> str:
    """A submitted job that waits for nodes, named after the test."""
    name = request.node.name.replace("_", "-")[:60].strip("-").lower()
    text = f"metadata: {{name: {name}}}\nspec: {{nodes: 4, command: [python, train.py]}}\n"
    (here / "job.yaml").write_text(text)
    assert main(["submit", "job.yaml"]) == 0
    said = capsys.readouterr().out
    assert f"{name} submitted" in said
    return name


Capture = pytest.CaptureFixture[str]


def test_a_job_that_waits_says_for_what(job: str, capsys: Capture) -> None:
    assert main(["status", job]) == 0
    said = capsys.readouterr().out
    assert f"{job}  Pending for" in said
    assert "waits" in said
    assert "\x1b[" not in said, "colour is for terminals only"


def test_jobs_are_listed_as_a_table_and_as_json(job: str, capsys: Capture) -> None:
    assert main(["jobs"]) == 0
    assert job in capsys.readouterr().out
    assert main(["jobs", "--name", f"{job[:20]}*", "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == [job]
    assert main(["jobs", "--phase", "Running"]) == 0
    assert capsys.readouterr().out == "no job matches\n"


def test_a_duplicate_name_is_told_with_the_line_in_the_file(job: str, capsys: Capture) -> None:
    assert main(["submit", "job.yaml"]) == exitcodes.FAILED
    said = capsys.readouterr().err
    assert said.startswith("job.yaml:1  metadata.name: ")
    assert said.endswith("holdfast: nothing was submitted\n")


def test_the_same_key_submits_once(job: str, here: Path, capsys: Capture) -> None:
    text = (here / "job.yaml").read_text().replace(job, f"{job}-2")
    (here / "two.yaml").write_text(text)
    answers = []
    for _ in range(2):
        assert main(["submit", "two.yaml", "--key", job, "--json"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


def test_a_job_is_suspended_resumed_and_stopped(job: str, capsys: Capture) -> None:
    for action, phase in (("suspend", "Suspended"), ("resume", "Pending"), ("stop", "Stopped")):
        assert main([action, job]) == 0
        assert job in capsys.readouterr().out
        assert main(["status", job, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["phase"] == phase
    assert main(["resume", job]) == exitcodes.FAILED
    assert "stays so" in capsys.readouterr().err


def test_a_deleted_job_is_gone_and_its_name_is_free(job: str, capsys: Capture) -> None:
    assert main(["delete", job, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == job
    assert main(["delete", job]) == exitcodes.FAILED
    assert job in capsys.readouterr().err
    assert main(["submit", "job.yaml"]) == 0
    capsys.readouterr()
    assert main(["story", job]) == 0
    told = capsys.readouterr().out.splitlines()
    assert len([line for line in told if "is submitted by" in line]) == 1
    assert told[-1].startswith(
        f"Before it another job had this name, which was deleted: holdfast story {job} --earlier"
    )
    assert main(["story", job, "--earlier"]) == 0
    both = capsys.readouterr().out.splitlines()
    assert len([line for line in both if "is submitted by" in line]) == 2
    assert both[-1] == told[-2]


def test_story_and_why_tell_what_was_decided(job: str, capsys: Capture) -> None:
    assert main(["story", job]) == 0
    told = capsys.readouterr().out
    assert "submitted" in told
    assert "--earlier" not in told
    assert main(["why", job]) == 0
    assert capsys.readouterr().out.startswith(f"{job} has been Pending since ")
    assert main(["why", "nobody"]) == exitcodes.FAILED
    assert "there is no job or node 'nobody'" in capsys.readouterr().err


def test_nodes_are_listed_and_an_unknown_one_is_named(here: Path, capsys: Capture) -> None:
    assert main(["nodes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    for words in (["evict"], ["restore"], ["nodes", "evict"], ["nodes", "restore"]):
        assert main([*words, "node-9", "--reason", "loud"]) == exitcodes.FAILED
        assert "node-9" in capsys.readouterr().err


def test_logs_of_a_rank_without_a_node_are_a_sentence(job: str, capsys: Capture) -> None:
    assert main(["logs", job]) == exitcodes.FAILED
    assert "has not run" in capsys.readouterr().err


def test_the_state_may_be_named_before_or_after_the_command(
    here: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_STATE")
    assert main(["jobs"]) == exitcodes.UNAVAILABLE
    assert main(["jobs", "--state", str(state)]) == 0
    assert main(["--state", str(state), "jobs"]) == 0
    assert main(["--state", str(state), "nodes", "list"]) == 0
    assert main(["nodes", "--state", str(state), "list"]) == 0
    assert main(["--state", "nowhere", "jobs", "--state", str(state)]) == 0
    assert "HOLDFAST_STATE" not in os.environ, "no other process is to take it for its own"
    address = json.loads((state / "driver.json").read_text())["http"]
    assert main(["jobs", "--driver", address, "--state", str(state)]) == 0


def test_a_wrong_token_is_a_matter_of_configuration(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "wrong")
    assert main(["jobs", "--json"]) == exitcodes.CONFIGURATION
    said = capsys.readouterr()
    assert "not the one of this driver" in said.err
    assert "not the one of this driver" in json.loads(said.out)["error"]


def test_a_driver_that_is_not_there_is_69(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_STATE", raising=False)
    for words in (["jobs"], ["status"], ["why", "node-1"], ["logs", "a"]):
        assert main(words) == exitcodes.UNAVAILABLE, words
        assert "no driver is running here" in capsys.readouterr().err
    monkeypatch.setenv("HOLDFAST_TOKEN", "x")
    assert main(["jobs", "--driver", "http://127.0.0.1:9"]) == exitcodes.UNAVAILABLE
    assert main(["jobs", "--driver", "nonsense"]) == exitcodes.USAGE


def test_what_is_typed_wrong_is_2_and_help_is_0(capsys: Capture) -> None:
    for words in (["nonsense"], ["run"], ["jobs", "--nonsense"], ["evict", "node-1"]):
        assert main(words) == exitcodes.USAGE, words
    assert main(["--help"]) == 0
    capsys.readouterr()
    for command in "run driver submit jobs status story why logs stop nodes evict".split():
        assert main([command, "--help"]) == 0
        assert f"$ holdfast {command}" in capsys.readouterr().out


def test_the_command_line_starts_without_lab_bench_torch_or_fastapi() -> None:
    code = (
        "import sys, holdfast.cli.main, holdfast.cli.run.follow\n"
        "heavy = {'torch', 'fastapi', 'pydantic', 'sqlalchemy', 'httpx', 'numpy', 'yaml'}\n"
        "loaded = heavy & set(sys.modules)\n"
        "loaded |= {m for m in sys.modules if m.startswith(('holdfast.lab', 'holdfast.bench'))}\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_an_address_where_nothing_answers_is_told_before_a_missing_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_STATE", raising=False)
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    assert main(["jobs", "--driver", "http://127.0.0.1:1"]) == exitcodes.UNAVAILABLE
    assert "http://127.0.0.1:1 does not answer" in capsys.readouterr().err


@pytest.mark.usefixtures("here")
def test_a_job_that_is_not_there_is_told_once(capsys: Capture) -> None:
    assert main(["stop", "nojob"]) == exitcodes.FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("holdfast: ")
    assert "nojob" in line


def test_the_brake_is_put_on_shown_and_released(here: Path, capsys: Capture) -> None:
    assert main(["brake"]) == 0
    assert capsys.readouterr().out.startswith("the brake is off")
    assert main(["brake", "apply", "--reason", "a switch smokes"]) == 0
    assert "a switch smokes" in capsys.readouterr().out
    assert main(["brake"]) == 0
    said = capsys.readouterr().out
    assert "the brake is on" in said
    assert "a switch smokes" in said
    assert "holdfast brake release" in said
    assert main(["brake", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["on"] is True
    assert main(["brake", "release", "--reason", "it is mended"]) == 0
    assert main(["brake", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["on"] is False


def test_a_brake_without_a_reason_changes_nothing(here: Path, capsys: Capture) -> None:
    assert main(["brake", "apply"]) == exitcodes.USAGE
    assert "--reason" in capsys.readouterr().err
    assert main(["brake"]) == 0
    assert capsys.readouterr().out.startswith("the brake is off")


def test_a_node_that_there_is_not_is_not_to_be_free_soon(here: Path, capsys: Capture) -> None:
    words = ["nodes", "maintain", "node-9", "--reason", "a new kernel", "--within", "300"]
    assert main(words) == exitcodes.FAILED
    assert "node-9" in capsys.readouterr().err


def test_a_fact_of_a_job_is_written_down_and_told(job: str, capsys: Capture) -> None:
    assert main(["fact", job, "the loader is tested", "--clears"]) == 0
    said = f"a person clears version 1 of {job}: the loader is tested"
    assert said in capsys.readouterr().out
    assert main(["why", job]) == 0
    assert said in capsys.readouterr().out
    assert main(["fact", job, "x", "--version", "7"]) == exitcodes.FAILED
    assert f"'{job}' has no version 7. Name one that it has: 1." in capsys.readouterr().err


def test_a_fact_needs_somebody_it_is_of_and_one_meaning(here: Path, capsys: Capture) -> None:
    assert main(["fact", "nobody", "new cable", "--clears"]) == exitcodes.FAILED
    assert "there is no job or node 'nobody'" in capsys.readouterr().err
    assert main(["fact", "node-9", "x", "--clears", "--accuses"]) == exitcodes.USAGE
    assert "--clears and --accuses" in capsys.readouterr().err


def test_the_worst_nodes_of_a_fleet_without_any(here: Path, capsys: Capture) -> None:
    for words in (["--worst"], ["--worst", "3"], ["--worst=3"]):
        assert main(["nodes", *words]) == 0
        assert capsys.readouterr().out.startswith("nothing is held against any node\n")
    assert main(["nodes", "--worst", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"] == []
    assert main(["nodes", "--worst", "0"]) == exitcodes.USAGE
    capsys.readouterr()
    assert main(["nodes", "--worst", "x"]) == exitcodes.USAGE
    assert "--worst: 'x' is no whole number" in capsys.readouterr().err
    assert main(["nodes", "--worst", "-h"]) == 0
