"""torchrun's command line, as people have it in their scripts."""

import sys
from pathlib import Path
from typing import Any

import pytest
from shells import Shell

from holdfast.cli.main import main
from holdfast.cli.run import command, torchrun
from holdfast.cli.run.options import Options
from holdfast.protocol import exitcodes

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Options]:
    """What a run would have been of: nothing is started."""
    runs: list[Options] = []

    class Noted:
        def __init__(self, asked: Options, run: Any) -> None:
            runs.append(asked)

        def execute(self) -> int:
            return 0

    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    monkeypatch.setattr("holdfast.cli.run.follow.Run", Noted)
    monkeypatch.setattr(command.options, "gpus", lambda: 0)
    monkeypatch.setattr(torchrun.os, "cpu_count", lambda: 6)
    return runs


@pytest.mark.parametrize(
    ("line", "ranks", "nodes"),
    [
        ("--standalone --nproc-per-node=2 train.py", 2, 1),
        ("--standalone --nproc_per_node 2 --nnodes 1 train.py", 2, 1),
        ("--nproc-per-node=auto train.py", 6, 1),
        ("--nproc-per-node cpu train.py", 6, 1),
        ("--nnodes=1:2 --nproc-per-node=3 train.py", 3, 1),
        ("--nnodes=2 --node-rank=0 --nproc-per-node=3 train.py", 3, 2),
        ("-n 2 --max_restarts 1 --first_step 5 train.py --rdzv-id its-own -t 3", 2, 1),
        (
            "--rdzv-backend=c10d --rdzv_endpoint localhost:29400 --rdzv-id 7 --rdzv-conf a=b "
            "--monitor-interval 5 --nproc-per-node 2 -r 3 -t 3 --nnodes 1 --role x train.py",
            2,
            1,
        ),
        ("--nnodes=1 --node-rank=0 --master-addr=10.0.0.7 --master_port 29500 train.py", 1, 1),
        ("--nnodes 2 --rdzv-endpoint [::1]:29400 train.py", 1, 2),
    ],
)
def test_lines_of_torchrun_start_the_run_that_they_mean(
    asked: list[Options], line: str, ranks: int, nodes: int
) -> None:
    assert main(["run", *line.split()]) == 0
    (run,) = asked
    assert (run.ranks, run.nodes) == (ranks, nodes)
    assert run.command[:2] == (sys.executable, "train.py")


def test_what_stands_after_the_script_is_the_scripts(asked: list[Options]) -> None:
    assert main(["run", "--tee", "3", "train.py", "--standalone", "--tee", "2", "--a_b"]) == 0
    assert asked[0].command[2:] == ("--standalone", "--tee", "2", "--a_b")


def test_one_line_says_what_is_not_needed_and_none_what_is_done(
    asked: list[Options], capsys: Capture
) -> None:
    assert main("run --rdzv-backend c10d --monitor_interval=5 --tee 3 train.py".split()) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("holdfast: --rdzv-backend, --monitor-interval, --tee: not needed. ")
    assert main("run --standalone --log-dir logs train.py".split()) == 0
    assert capsys.readouterr().err == ""
    assert asked[1].runs == Path("logs")
    assert main("run -q --tee 3 --nnodes 1:2 train.py".split()) == 0
    assert capsys.readouterr().err == ""


def test_of_a_range_of_nodes_the_fewest_are_taken_and_it_is_said(
    asked: list[Options], capsys: Capture
) -> None:
    assert main("run --nnodes=1:2 train.py".split()) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("holdfast: --nnodes 1:2: it runs on 1")


def test_a_program_is_run_as_it_is(asked: list[Options], tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert main(["run", "--no-python", str(script), "x"]) == 0
    assert asked[0].command == (str(script), "x")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("-n two train.py", "holdfast: -n: 'two' is no number.  Give a number, or gpu"),
        ("-nx train.py", "holdfast: -n: 'x' is no number."),
        ("--nproc_per_node=x train.py", "holdfast: --nproc_per_node: 'x' is no number."),
        ("-n 0 train.py", "holdfast: -n: 0 is not between 1 and 1024."),
        ("--nproc-per-node=gpu train.py", "holdfast: --nproc-per-node gpu: nvidia-smi lists no"),
        ("--nnodes=2:1 train.py", "holdfast: --nnodes: '2:1' has more at least than at most."),
        ("--nnodes two train.py", "holdfast: --nnodes: 'two' is no number."),
        ("--nnodes=2 --node_rank=1 train.py", "holdfast: --node-rank 1 means one of several mach"),
        ("--nnodes 2 --master-addr 10.0.0.7 train.py", "holdfast: --master-addr 10.0.0.7 means"),
        ("--nnodes 2 --rdzv-endpoint=head:29400 train.py", "holdfast: --rdzv-endpoint head:29400 "),
        ("--nnodes=1:4 --rdzv-endpoint=head:29400 train.py", "holdfast: --rdzv-endpoint head:2940"),
        ("--tee", "holdfast: --tee needs a value."),
        ("-m --no-python train", "holdfast: -m and --no-python exclude each other."),
        ("--lr 3 train.py", "holdfast: holdfast run has no option '--lr'."),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(
    asked: list[Options], capsys: Capture, line: str, says: str
) -> None:
    assert main(["run", *line.split()]) == exitcodes.USAGE
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith(says)
    assert asked == []


@pytest.mark.cluster
def test_a_line_of_torchrun_runs(shell: Shell) -> None:
    shell.script("train.py", "import os, sys; print(os.environ['WORLD_SIZE'], sys.argv[1:])")
    line = "--standalone --nproc_per_node=2 --rdzv-backend=c10d train.py --lr 3"
    ended = shell.holdfast("run", *line.split())
    assert ended.returncode == 0, ended.stderr
    assert "2 ['--lr', '3']" in ended.stdout
    assert "holdfast: --rdzv-backend: not needed." in ended.stderr
