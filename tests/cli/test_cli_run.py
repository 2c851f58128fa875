"""`holdfast run` from its first line to its last, with scripts that need no torch."""

import json
import os
import re
import signal
import subprocess
import sys

import psutil
import pytest
from shells import Shell, heard
from waiting import DEADLINE_S, eventually

pytestmark = pytest.mark.cluster

GREETING = """
import os, pathlib, sys, time
rank, ranks = os.environ["RANK"], int(os.environ["WORLD_SIZE"])
print("hello", end=" ", flush=True)
pathlib.Path(f"began-{rank}").touch()  # no line is whole before all have begun theirs
while len(list(pathlib.Path().glob("began-*"))) < ranks:
    time.sleep(0.01)
print("from", rank, "of", ranks, flush=True)
print("to stderr", file=sys.stderr, flush=True)
"""

WRONG = """
import os, pathlib, time
def f():
    raise ValueError('the mistake')
while os.environ["TORCHELASTIC_RESTART_COUNT"] != "0" and not pathlib.Path("go").exists():
    time.sleep(0.01)  # else it might be over before anybody has heard of the first time
f()
"""

FOREVER = """
import os, pathlib, time
pathlib.Path(f"rank-{os.environ['RANK']}").touch()
while True:
    time.sleep(0.05)
"""


def test_a_scripts_output_is_ours_and_differing_lines_are_told_apart(shell: Shell) -> None:
    shell.script("greet.py", GREETING)
    ended = shell.holdfast("run", "-n", "2", "greet.py")
    assert ended.returncode == 0, ended.stderr
    lines = ["[r0] hello from 0 of 2", "[r1] hello from 1 of 2"]
    assert sorted(ended.stdout.splitlines()) == lines
    assert ended.stderr.splitlines()[0].startswith("holdfast  2 ranks here, logs in runs/greet-")
    assert "to stderr\n" in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("holdfast  done: no fault, ")
    assert shell.leftovers() == []


BRIEF = """
import os, sys
sys.stdout.write("loading\\nRuntimeError: CUDA error: unspecified launch failure")
sys.stdout.flush()
os._exit(3)
"""


def test_the_last_line_of_a_rank_that_lived_for_a_moment_is_searched(shell: Shell) -> None:
    """It is gone before the daemon has looked once, and the run before the first heartbeat."""
    shell.script("brief.py", BRIEF)
    ended = shell.holdfast("run", "--max-restarts", "0", "brief.py")
    assert ended.returncode == 3
    said = "rank 0 stdout on node-1 speaks of an error of CUDA: RuntimeError: CUDA error: unspec"
    assert said in ended.stderr
    assert said in shell.asked("why").stdout
    assert shell.leftovers() == []


def test_an_exception_is_shown_whole_and_explained_afterwards(shell: Shell) -> None:
    shell.script("wrong.py", WRONG)
    process = shell.start(
        *("run", "--nproc-per-node", "2", "--max-restarts", "1", "--first-step", "42"), "wrong.py"
    )
    errors = heard(process, "(restart 1 of 1)")
    (shell.folder / "go").touch()
    assert process.stderr is not None
    errors += process.stderr.read()
    assert process.wait(DEADLINE_S) == 1
    shown = re.sub(r"^\[r\d\] ", "", errors, flags=re.MULTILINE)
    assert shown.count("in f\n    raise ValueError('the mistake')\nValueError: the mistake") == 1
    last = errors.splitlines()[-1]
    assert "ValueError: the mistake" in last
    first_to_raise = last.partition("rank ")[2].split()[0]
    why = shell.asked("why", shell.run.name)
    assert why.stdout.startswith("Traceback (most recent call last):")
    assert f"{shell.run.name} failed at " in why.stdout
    status = json.loads(shell.asked("status", "--json").stdout)
    assert (status["phase"], status["driver_running"]) == ("Failed", False)
    assert status["spec"]["spec"]["timeouts"]["firstStepS"] == 42
    assert shell.asked("story", "--json").returncode == 0
    logs = shell.asked("logs", "--rank", first_to_raise, "--stderr", "--tail", "1")
    assert logs.stdout == "ValueError: the mistake\n"
    assert "Failed" in shell.asked("jobs").stdout
    assert shell.asked("jobs", "--phase", "Running").stdout == "no job matches\n"
    assert "node-1" in shell.asked("nodes").stdout
    node = shell.asked("why", "node-1").stdout
    assert re.search(r"^  incident 1 at [\d:]+: .* raised ValueError: the mistake", node, re.M)
    unknown = shell.asked("why", "node-2").stderr
    assert "there is no job or node 'node-2'." in unknown
    assert "Did you mean node-1?" in unknown


def test_any_program_is_run_and_its_signal_is_in_the_exit_code(shell: Shell) -> None:
    again = "until test -e go; do sleep .05; done; exit 0"  # so that the first time is heard of
    once = f"if test -e once; then {again}; fi; touch once; kill -SEGV $$"
    process = shell.start("run", "--", "sh", "-c", once)
    heard(process, "died of SIGSEGV; restarting 1 rank")
    (shell.folder / "go").touch()
    assert process.wait(DEADLINE_S) == 0, "a crash is cured by a restart"
    assert not (shell.run / "journal.reserve").exists(), "a run that is over keeps no room"


def test_a_script_that_is_not_there_is_named_before_anything_is_made(shell: Shell) -> None:
    ended = shell.holdfast("run", "-n", "4", "nowhere.py")
    assert ended.returncode == 2
    assert "there is no script 'nowhere.py'" in ended.stderr
    assert list(shell.folder.iterdir()) == []


def forever(shell: Shell, ranks: int = 2) -> "subprocess.Popen[str]":
    """A run whose ranks are all up."""
    shell.script("forever.py", FOREVER)
    process = shell.start("run", "-n", str(ranks), "forever.py")
    eventually(lambda: len(list(shell.folder.glob("rank-*"))) == ranks)
    return process


DEAF = """import signal
for each in (signal.SIGTERM, signal.SIGINT):
    signal.signal(each, signal.SIG_IGN)
"""
SAVES = """import os, time
try:
    open(f"rank-{os.environ['RANK']}", "w").close()
    time.sleep(1000)
except KeyboardInterrupt:
    print("saves", os.environ["RANK"])
    raise
"""


@pytest.mark.parametrize(
    ("number", "saves"), [(signal.SIGINT, 2), (signal.SIGTERM, 0)], ids=["Ctrl-C", "kill"]
)
def test_ctrl_c_raises_keyboard_interrupt_in_each_rank_and_a_kill_does_not(
    shell: Shell, number: signal.Signals, saves: int
) -> None:
    shell.script("saves.py", SAVES)
    process = shell.start("run", "-n", "2", "saves.py")
    eventually(lambda: len(list(shell.folder.glob("rank-*"))) == 2)
    process.send_signal(number)
    said, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + number
    assert said.count("saves") == saves
    assert errors.count("KeyboardInterrupt") == bool(saves), "one traceback is enough"
    assert "fault" not in errors.replace("no fault", "")


MEETS = """import os, time
import torch.distributed
open(f"rank-{os.environ['RANK']}", "w").close()
if os.environ["RANK"] == "1":
    time.sleep(1000)
torch.distributed.init_process_group("gloo")
"""


def test_ctrl_c_is_heard_by_ranks_that_wait_to_meet_one(shell: Shell) -> None:
    """Long before the grace is over: they wait in C++, for one that Ctrl-C has ended."""
    shell.script("meets.py", MEETS)
    process = shell.start("run", "-n", "3", "meets.py")
    eventually(lambda: len(list(shell.folder.glob("rank-*"))) == 3)
    eventually(lambda: shell.asked("ranks").stdout.count("rank 1 in init_process_group") == 2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert "killed" not in errors.splitlines()[-1]


def test_ctrl_c_stops_the_job_and_takes_everything_down(shell: Shell) -> None:
    process = forever(shell)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert "stopping" in errors
    assert errors.splitlines()[-1].startswith("holdfast  stopped")
    assert shell.leftovers() == []


def test_a_second_ctrl_c_kills_what_ignores_the_first(shell: Shell) -> None:
    shell.script("stubborn.py", DEAF + FOREVER)
    process = shell.start("run", "stubborn.py")
    eventually(lambda: (shell.folder / "rank-0").exists())
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert any("stopping" in line for line in iter(process.stderr.readline, ""))
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_S) == 130
    (last,) = process.stderr
    assert last.startswith("holdfast  stopped, nothing of it runs; logs in runs/stubborn-")
    eventually(lambda: not shell.leftovers())
    for words in ("runs", "jobs", "status"):
        told = shell.asked(words).stdout
        assert "cut short" in told
        assert "lost its driver" not in told
    ended, last, *_ = shell.asked("why").stdout.splitlines()
    assert ended.endswith(
        " was cut short: it was being stopped, and nobody waited for that. Until then:"
    )
    assert "Suspending" in last


def test_a_file_beside_the_script_is_not_taken_for_a_library_of_ours(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shells.HOLDFAST", [sys.executable, "-P", "-m", "holdfast.cli"])
    for name in ("statistics", "click", "msgspec", "structlog"):
        shell.script(f"{name}.py", "raise SystemExit('a file of the user')\n")
    shell.script("train.py", "print('done')\n")
    assert "done" in shell.holdfast("run", "train.py").stdout


def test_a_stop_does_not_wait_for_a_driver_that_hangs(shell: Shell) -> None:
    shell.script("forever.py", FOREVER)
    process = shell.start("run", "--grace", "0", "forever.py")
    eventually(lambda: (shell.folder / "rank-0").exists())
    driver = int((shell.run / "driver.lock").read_text())
    os.kill(driver, signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    heard(process, "the driver could not end the job within 5 s, so all of it is taken down now")
    assert process.wait(DEADLINE_S) == 130
    eventually(lambda: not shell.leftovers())


def test_a_driver_that_was_killed_is_named_while_it_runs_and_at_the_end(shell: Shell) -> None:
    process = forever(shell)
    driver = psutil.Process(int((shell.run / "driver.lock").read_text()))
    driver.kill()
    driver.wait(DEADLINE_S)
    asked = [shell.asked(word) for word in ("status", "jobs", "why", "runs")]
    for each in asked:
        assert each.returncode == 0, each.stderr
        assert "nothing runs here" not in each.stderr
        assert "Running" in each.stdout or "is running" in each.stdout, each.stdout
    heard(process, "the driver ended unasked and was started again; the ranks run on meanwhile")
    process.send_signal(signal.SIGINT)
    heard(process, ", driver restarted once")
    assert process.wait(DEADLINE_S) == 130
    assert "a driver took over" in shell.asked("why").stdout


def test_ranks_that_do_not_hear_sigterm_are_named_once_they_were_killed(shell: Shell) -> None:
    shell.script("deaf.py", DEAF + FOREVER)
    process = shell.start("run", "-n", "2", "--grace", "0.5", "deaf.py")
    for rank in ("rank-0", "rank-1"):
        eventually((shell.folder / rank).exists)
    process.send_signal(signal.SIGINT)
    how = "ranks 0, 1 were killed, for they ran on 0.5 s after Ctrl-C"
    heard(process, f"stopped: {how}. (no fault, ")
    assert process.wait(DEADLINE_S) == 130
    assert f"is stopped: {how}" in shell.asked("why").stdout


def test_nothing_is_left_when_it_is_killed_and_it_lost_its_driver(shell: Shell) -> None:
    process = forever(shell)
    eventually(lambda: "Running" in shell.asked("runs").stdout, "its ranks run")
    process.kill()
    process.wait(DEADLINE_S)
    eventually(lambda: not shell.leftovers())
    name = shell.run.name
    for words in ("runs", "jobs"):
        told = shell.asked(words).stdout
        assert "lost its driver" in told
        assert "Running" not in told
    assert shell.asked("status").stdout.startswith(f"{name}  lost its driver; it had been Runn")
    assert shell.asked("why").stdout.startswith(f"{name} lost its driver. Until then:\n")


def test_two_runs_at_once_each_have_their_own_output_and_exit_code(shell: Shell) -> None:
    shell.script("greet.py", GREETING)
    shell.script("code.py", "import sys\nprint(sys.argv[1:])\nsys.exit(int(sys.argv[2]))\n")
    greet = shell.start("run", "-n", "1", "greet.py")
    code = shell.start("run", "--max-restarts", "0", "code.py", "--code", "7")
    assert greet.communicate(timeout=DEADLINE_S)[0] == "hello from 0 of 1\n"
    output, errors = code.communicate(timeout=DEADLINE_S)
    assert (greet.returncode, code.returncode) == (0, 7)
    assert output == "['--code', '7']\n"
    assert "exit code 7" in errors.splitlines()[-1]
    assert len(list((shell.folder / "runs").iterdir())) == 2


def test_a_killed_driver_comes_back_and_the_script_never_notices(shell: Shell) -> None:
    shell.script("wait.py", FOREVER.replace("while True", "while not pathlib.Path('go').exists()"))
    process = shell.start("run", "-n", "2", "wait.py")
    eventually(lambda: len(list(shell.folder.glob("rank-*"))) == 2)
    address = shell.run / "driver.json"
    old = json.loads(address.read_text())["pid"]
    subprocess.run(["kill", "-9", str(old)], check=True)
    eventually(lambda: address.exists() and json.loads(address.read_text())["pid"] != old)
    (shell.folder / "go").touch()
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, errors
    assert errors.splitlines()[-1].startswith("holdfast  done: no fault")
