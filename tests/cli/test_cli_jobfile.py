"""`holdfast submit`: every mistake with the line it stands in, before any driver is asked."""

import io
import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.cli import find, jobfile
from holdfast.cli.client import Problem
from holdfast.cli.errors import Stopped
from holdfast.cli.main import main
from holdfast.protocol import exitcodes
from holdfast.protocol.paths import RunPaths

JOB = """\
apiVersion: holdfast.dev/v1alpha1
kind: TrainingJob
metadata:
  name: speech
spec:
  nodes: 4
  ranksPerNode: 2
  command: [python, train.py]
  env:
    RANK: "3"
  logRules:
    - pattern: ok
    - pattern: "("
  topology:
    tp: 2
    pp: 2
    dp: 3
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return path


def told(path: Path) -> list[str]:
    with pytest.raises(Stopped) as stopped:
        jobfile.check(jobfile.read(path), on_this_machine=True)
    assert stopped.value.code == exitcodes.USAGE
    assert stopped.value.sentence == "nothing was submitted"
    return [line.removeprefix(f"{path}:") for line in stopped.value.details]


def test_aliases_that_repeat_each_other_are_refused_before_they_are_followed(job: Path) -> None:
    """Seven of eight each, in 400 bytes, are two million values."""
    levels = [f"{name}: &{name} [{', '.join([f'*{of}'] * 8)}]" for of, name in pairwise("abcdefgh")]
    job.write_text("\n".join(["a: &a [x, x, x, x, x, x, x, x]", *levels]))
    with pytest.raises(Stopped) as stopped:
        jobfile.read(job)
    assert stopped.value.details == (f"{job}  its aliases (*name) repeat more than 10,000 values.",)


def test_each_mistake_has_the_line_of_its_key(job: Path) -> None:
    assert told(job) == [
        "9  spec.env: RANK is set by Holdfast for each rank.  Remove it from env.",
        "13  spec.logRules[1].pattern: this is not a regular expression: missing ): (.  "
        "Escape what is meant literally with a backslash.",
        "14  spec.topology: tp 2 x pp 2 x dp 3 = 12 ranks, but nodes 4 x ranksPerNode 2 = 8.  "
        "Set dp: 2, or nodes: 6.",
    ]


@pytest.mark.parametrize(
    ("written", "right"), [("4.2e10", "4.2e+10"), ("1e9", "1.0e+9"), ("5e-4", "5.0e-4")]
)
def test_a_number_that_yaml_takes_for_text_is_told_as_it_takes_it(
    job: Path, written: str, right: str
) -> None:
    known = "metadata: {name: a}\nspec:\n  nodes: 1\n  ranksPerNode: 1\n  command: [x]\n"
    versioned = f"apiVersion: holdfast.dev/v1alpha1\nkind: TrainingJob\n{known}"
    job.write_text(f"{versioned}  mfu: {{flopsPerToken: {written}}}\n")
    fix = f"Write {right}: YAML wants a dot and a sign."
    assert told(job) == [f'8  spec.mfu.flopsPerToken: "{written}" is not a number.  {fix}']
    job.write_text(f"{versioned}  mfu: {{flopsPerToken: {right}}}\n")
    jobfile.check(jobfile.read(job), on_this_machine=True)


def test_what_is_missing_has_the_line_of_what_is_around_it(job: Path) -> None:
    job.write_text("metadata: {name: a}\nspec:\n  nodes: 1\n")
    assert told(job) == ["2  spec.command: it is missing.  Add it."]


def test_a_key_that_stands_twice_is_a_mistake(job: Path) -> None:
    job.write_text("metadata: {name: a}\nspec:\n  nodes: 1\n  command: [x]\n  nodes: 2\n")
    assert told(job) == ["5  spec.nodes: it stands here and in line 3.  Keep one of them."]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [("a: [1,\nb: 2}", 2, "not YAML"), ("a: 'x", 1, "not YAML"), ("a: b: c", 1, "not YAML")],
)
def test_what_is_not_yaml_is_told_with_its_line(job: Path, text: str, line: int, what: str) -> None:
    job.write_text(text)
    with pytest.raises(Stopped) as stopped:
        jobfile.read(job)
    assert stopped.value.details[0].startswith(f"{job}:{line}  {what}")


@pytest.mark.parametrize("text", ["", "- a\n", "hello", "3"])
def test_what_is_no_job_is_told_in_a_sentence(job: Path, text: str) -> None:
    job.write_text(text)
    assert "this is not a job" in told(job)[0]


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", str(tmp_path / "no.yaml")]) == exitcodes.USAGE
    assert "no.yaml: No such file" in capsys.readouterr().err


def test_a_job_is_read_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("metadata: {name: a}\nspec: {nodes: 0}\n"))
    assert main(["submit", "-"]) == exitcodes.USAGE
    told = capsys.readouterr().err
    assert "-:2  spec.command" in told
    assert "-:2  spec.nodes" in told


@pytest.mark.parametrize(
    ("bound", "reached", "alone"),
    [
        ("http://127.0.0.1:7700", "http://127.0.0.1:7700", True),
        ("http://0.0.0.0:7700", "http://127.0.0.1:7700", False),
        ("https://[::]:7700", "https://[::1]:7700", False),
    ],
)
def test_a_driver_that_listens_everywhere_is_found_and_its_nodes_may_be_elsewhere(
    tmp_path: Path, bound: str, reached: str, *, alone: bool
) -> None:
    RunPaths(tmp_path).address.write_text(json.dumps({"http": bound, "pid": os.getpid()}))
    assert find.address(tmp_path) == reached
    assert find.here_alone(find.Target(state=tmp_path)) is alone


def test_a_folder_that_is_not_there_is_told_before_the_driver_is_asked(job: Path) -> None:
    good = "metadata: {name: a}\nspec:\n  command: [x]\n"
    job.write_text(good + "  workdir: /no/such/folder\n")
    assert told(job) == [
        "4  spec.workdir: '/no/such/folder' is not a folder on this machine.  "
        "Name a folder that the ranks can read."
    ]
    jobfile.check(jobfile.read(job), on_this_machine=False)


def test_a_wrong_folder_is_told_with_the_other_mistakes(job: Path) -> None:
    job.write_text("metadata: {name: a}\nspec:\n  nodes: 0\n  workdir: /no/such/folder\n")
    lines = [line.split(":")[0] for line in told(job)]
    assert lines == ["2  spec.command", "3  spec.nodes", "4  spec.workdir"]


@pytest.mark.parametrize("workdir", ['""', "3", "[a]"])
def test_a_folder_of_a_wrong_type_is_told_once(job: Path, workdir: str) -> None:
    job.write_text(f"metadata: {{name: a}}\nspec:\n  command: [x]\n  workdir: {workdir}\n")
    (line,) = told(job)
    assert line.startswith("4  spec.workdir")


def test_a_relative_folder_is_meant_from_here(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.write_text("metadata: {name: a}\nspec: {command: [x]}\n")
    monkeypatch.chdir(tmp_path)
    document = jobfile.read(job)
    jobfile.check(document, on_this_machine=True)
    assert document.values["spec"]["workdir"] == str(tmp_path)


def test_what_the_driver_refuses_has_lines_too(job: Path) -> None:
    mistake = {"field": "metadata.name", "value": "speech", "why": "it is taken.", "fix": "Rename."}
    problem = Problem(409, {"detail": "no", "errors": [mistake]})
    stopped = jobfile.refused(jobfile.read(job), problem)
    assert stopped.details == (f"{job}:4  metadata.name: it is taken.  Rename.",)


def test_json_is_a_job_file_too(job: Path) -> None:
    job.write_text(json.dumps({"metadata": {"name": "a"}, "spec": {"command": ["x"], "nodez": 1}}))
    assert "Did you mean 'nodes'?" in told(job)[0]


def test_the_schema_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "TrainingJob"


@pytest.mark.parametrize("text", ["a: &a [*a]\n", "[" * 5_000])
def test_a_file_that_has_no_bottom_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(Stopped) as stopped:
        jobfile.read(file)
    assert stopped.value.code == exitcodes.USAGE
    assert "contains itself" in stopped.value.details[0]
