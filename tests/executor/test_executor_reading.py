"""What is read from files and text: errors of ranks, imports of scripts, commands, settings."""

import json
import os
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import msgspec
import pytest
from waiting import DEADLINE_S

from holdfast.executor.command import NotStartable, python_program, resolve
from holdfast.executor.errors import all_step, in_collective, last_step, rank_error, saved_steps
from holdfast.executor.launcher import BOOT
from holdfast.executor.launcher.orders import Declined, Fork, Import, Imported, Program
from holdfast.executor.launcher.scan import modules_of
from holdfast.executor.settings import read
from holdfast.kit.cgroup import Memory, memory
from holdfast.protocol.nodeenv import BadSettings
from holdfast.telemetry.recorder import Recorder
from holdfast.telemetry.ring import RingWriter

SAVING_TRACE = '  File "/x/torch/distributed/checkpoint/filesystem.py", line 9, in write\n'
GLOO_TRACE = 'File "/x/torch/distributed/distributed_c10d.py", line 3, in all_reduce\n'


# ---------------------------------------------------------------- errors


def test_the_error_file_of_torch_elastic_is_read(tmp_path: Path) -> None:
    extra = {"py_callstack": "Traceback …\nKeyError: 'x'", "timestamp": "1700000000"}
    message = {"message": {"message": "KeyError: 'x'", "extraInfo": extra}}
    (tmp_path / "error.json").write_text(json.dumps(message))
    error = rank_error(tmp_path)
    assert error is not None
    assert (error.exception, error.message) == ("KeyError", "KeyError: 'x'")
    assert error.stamp_s == 1_700_000_000
    assert error.traceback == extra["py_callstack"]


NO_ERROR_FILES = {
    "empty": b"",
    "no text": b"\xff{",
    "a list": b"[]",
    "another message": b'{"message": 3}',
    "a list without end": b"[" * 100_000,
    "5,000 digits": b'{"message": {"message": "x", "extraInfo": {"timestamp": %s}}}'
    % (b"9" * 5_000),
}


@pytest.mark.parametrize("content", NO_ERROR_FILES.values(), ids=NO_ERROR_FILES)
def test_an_error_file_that_is_none_gives_way_to_stderr(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "error.json").write_bytes(content)
    trace = "Traceback (most recent call last):\n  File x\nmy.pkg.BadDataError: row 3\n"
    (tmp_path / "stderr.log").write_text(f"warning: something\n{trace}\n[W] later noise")
    error = rank_error(tmp_path)
    assert error is not None
    assert (error.exception, error.message) == ("BadDataError", "my.pkg.BadDataError: row 3")


def test_what_an_exception_came_of_is_kept_of_stderr_too(tmp_path: Path) -> None:
    one = "Traceback (most recent call last):\n  File x\n"
    came = f"{one}OSError: a\n\nDuring handling of the above exception, another exception occurred:"
    (tmp_path / "stderr.log").write_text(f"{one}ValueError: before\n{came}\n\n{one}NameError: b\n")
    error = rank_error(tmp_path)
    assert error is not None
    assert (error.exception, error.message) == ("NameError", "NameError: b")
    assert error.traceback == f"{came}\n\n{one}NameError: b"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["a pipe", "a folder"])
def test_an_error_file_that_is_no_file_is_not_waited_for(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "error.json")
    assert rank_error(tmp_path) is None
    make(tmp_path / "stderr.log")
    assert rank_error(tmp_path) is None


@pytest.mark.parametrize(
    ("content", "kills"),
    [
        (b"low 0\nhigh 3\noom_kill 4\n", 4),
        (b"oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", 2),
        (b"oom_kill", 0),
        (b"oom_kill \xff\xfe", 0),
        (b"oom_kill -1", 0),
        (b"oom_kill " + b"9" * 5_000, 0),
    ],
)
def test_kills_for_want_of_memory_are_counted_where_that_is_a_number(
    tmp_path: Path, content: bytes, kills: int
) -> None:
    (tmp_path / "memory.events").write_bytes(content)
    (tmp_path / "memory.max").write_bytes(b"9" * 5_000)
    (tmp_path / "self").write_text("0::/\n")
    (tmp_path / "mounts").write_text(f"1 2 0:3 / {tmp_path} rw - cgroup2 cgroup rw\n")
    assert memory(tmp_path / "self", tmp_path / "mounts") == Memory(limit_bytes=0, kills=kills)


def test_the_last_line_of_stderr_is_better_than_nothing(tmp_path: Path) -> None:
    assert rank_error(tmp_path) is None
    (tmp_path / "stderr.log").write_text("loading\nCUDA error: out of luck\n")
    error = rank_error(tmp_path)
    assert error is not None
    assert (error.message, error.exception) == ("CUDA error: out of luck", "")


@pytest.mark.parametrize(
    ("message", "trace", "exception", "echo"),
    [
        ("[../gloo/transport/tcp/pair.cc:5] Connection closed by peer [1]:3", "", "", True),
        ("Connection reset by peer", GLOO_TRACE, "RuntimeError", True),
        ("NCCL error: remote process exited or there was a network error", "", "", True),
        ("anything", "", "DistBackendError", True),
        ("NCCL error in: x.cpp:93, invalid usage (run with", "", "DistBackendError", False),
        ("NCCL error in: x.cpp:93, unhandled cuda error", "", "DistBackendError", False),
        ("ncclInvalidUsage: remote process exited", "", "", False),
        ("Timed out waiting 1800000ms for recv operation", GLOO_TRACE, "RuntimeError", True),
        ("Connection reset by peer", "File requests.py", "ConnectionResetError", False),
        ("loss is not finite", GLOO_TRACE, "ValueError", False),
        ("KeyError: 'x'", "", "KeyError", False),
        ("Read timed out", f"{GLOO_TRACE}File", "TimeoutError", False),
        ("timed out", 'File "/home/me/nccl-exp/t.py", line 3, in f', "RuntimeError", False),
        ("timed out", 'File "/x/t.py", line 3, in nccl_free_loader', "RuntimeError", False),
        ("Connection reset by peer", SAVING_TRACE, "RuntimeError", False),
        ("Connection reset by peer", GLOO_TRACE + SAVING_TRACE, "RuntimeError", False),
        ("data.torch.distributed.org: Connection refused", "", "RuntimeError", False),
        ("http://gloom/nccl: Connection refused", "", "RuntimeError", False),
    ],
)
def test_an_echo_of_a_peers_death_is_told_from_an_error_of_ones_own(
    message: str, trace: str, exception: str, echo: bool
) -> None:
    assert in_collective(message, trace, exception) is echo


# ---------------------------------------------------------------- imports


def test_the_users_modules_are_followed_and_installed_ones_are_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch.nn as nn\nfrom mine import model\nfrom json import dumps\n"
        "from . import never\noptimizer = torch.optim.AdamW\n"
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("import html.parser\nimport train")
    names = modules_of(script="train.py", workdir=str(tmp_path))
    assert {"torch.nn", "json", "html.parser", "torch._dynamo"} <= set(names)
    assert not {"mine", "mine.model", "train"} & set(names)


def test_a_package_that_is_run_as_a_module_is_looked_into(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text("import html.parser")
    assert modules_of(module="app", workdir=str(tmp_path)) == ["html.parser"]


@pytest.mark.parametrize("text", ["x = = 1", "import", "\0"])
def test_a_script_that_cannot_be_read_names_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.py").write_text(text)
    assert modules_of(script="train.py", workdir=str(tmp_path)) == []


# ---------------------------------------------------------------- commands


@pytest.mark.parametrize(
    ("rest", "program"),
    [
        (["train.py", "-u"], Program(script="train.py", arguments=("-u",))),
        (["-u", "train.py"], Program(script="train.py", unbuffered=True)),
        (["-m", "app", "x"], Program(module="app", arguments=("x",))),
        (["-c", "pass"], Program(code="pass")),
        (["-O", "train.py"], None),
        (["folder"], None),
        (["-m"], None),
        ([], None),
    ],
)
def test_only_a_command_line_that_is_wholly_understood_is_forked(
    rest: list[str], program: Program | None
) -> None:
    assert python_program(sys.executable, ["python", *rest], sys.executable) == program


def test_another_interpreter_is_executed_not_forked(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.symlink_to(os.path.realpath(sys.executable))
    assert python_program(str(other), ["python", "train.py"], sys.executable) is None


def test_a_file_that_may_not_be_executed_is_told_from_one_that_is_not_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.sh").write_text("")
    with pytest.raises(NotStartable, match=r"'\./train\.sh' is not executable") as refused:
        resolve(["./train.sh"], {}, str(tmp_path))
    assert refused.value.exit_code == 126


# ---------------------------------------------------------------- starting


def test_all_that_is_missing_in_the_environment_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"HOLDFAST_DRIVER_URL.*HOLDFAST_SCRATCH"):
        read({"HOLDFAST_NODE": "node-1"})
    token = tmp_path / "token"
    given = {
        "HOLDFAST_NODE": "node-1",
        "HOLDFAST_DRIVER_URL": "http://127.0.0.1:1",
        "HOLDFAST_NODE_TOKEN_FILE": str(token),
        "HOLDFAST_SCRATCH": str(tmp_path),
        "HOLDFAST_MEMORY": str(tmp_path),
    }
    with pytest.raises(BadSettings, match="cannot be read"):
        read(given)
    token.write_text("secret\n")
    assert read(given).token() == "secret"
    with pytest.raises(BadSettings, match="ftp://x"):
        read(given | {"HOLDFAST_DRIVER_URL": "ftp://x"})


def test_the_executor_loads_neither_torch_nor_what_the_driver_needs() -> None:
    heavy = "torch numpy pydantic fastapi structlog rich sqlalchemy"
    code = (
        "import sys, holdfast.executor.process\n"
        f"print([name for name in {heavy.split()} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# ---------------------------------------------------------------- the launcher by itself


def test_a_launcher_with_a_second_thread_refuses_to_fork_and_names_the_module(
    tmp_path: Path,
) -> None:
    text = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    installed = Path(sysconfig.get_path("purelib", "posix_user", {"userbase": str(tmp_path)}))
    installed.mkdir(parents=True)
    (installed / "threaded.py").write_text(text)
    boot = f"import sys; sys.path.append({str(installed)!r}); {BOOT}"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(DEADLINE_S)
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", boot, "serve", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONUSERBASE": str(tmp_path)},
        )
        theirs.close()
        ours.send(msgspec.json.encode(Import(modules=("json", "no_such_module", "threaded"))))
        done = msgspec.json.decode(ours.recv(65_536), type=Imported)
        assert (done.imported, done.skipped) == (2, 1)
        packet = msgspec.json.encode(Fork(id=1, program=Program(code="print('never')")))
        socket.send_fds(ours, [packet], [2, 2])
        refused = msgspec.json.decode(ours.recv(65_536), type=Declined)
        assert "threads" in refused.why
        assert refused.module == "threaded"
    assert process.wait(DEADLINE_S) == 0, "it ends with its socket"


def test_without_a_launcher_a_program_runs_the_same_from_cold(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(sys.argv, __name__)\nsys.exit(3)")
    program = Program(script=str(script), arguments=("a",), workdir=str(tmp_path))
    command = [sys.executable, "-c", BOOT, "cold", msgspec.json.encode(program).decode()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == f"{[str(script), 'a']} __main__\n"


def test_a_ring_tells_the_last_step_of_a_rank_that_ended(tmp_path: Path) -> None:
    path = tmp_path / "job.e3.r1.ring"
    assert last_step(path) is None
    RingWriter(path, rank=1, epoch=3).state(17, 0, None, 0)
    assert last_step(path) == 17
    path.write_bytes(path.read_bytes()[:100])
    assert last_step(path) is None


def test_the_rings_of_a_node_tell_how_much_the_script_of_one_that_ended_had_saved(
    tmp_path: Path,
) -> None:
    rings = [tmp_path / f"job.e3.r{rank}.ring" for rank in range(2)]
    assert saved_steps(rings[1], rings) is None
    ranks = [Recorder(RingWriter(path, rank=at, epoch=3)) for at, path in enumerate(rings)]
    for step in range(5):
        for rank in ranks:
            rank.stepped()
        if step == 2:
            ranks[0].saved()
    assert saved_steps(rings[1], rings) == 3
    assert saved_steps(rings[1], ()) == 0
    ranks[1].reported(40, None, None)
    assert saved_steps(rings[1], rings) is None, "it numbers its steps"


def test_the_rings_of_a_node_tell_the_step_that_all_its_ranks_have_completed(
    tmp_path: Path,
) -> None:
    rings = [tmp_path / f"job.e3.r{rank}.ring" for rank in range(3)]
    for rank, step in enumerate((34, 33, 35)):
        RingWriter(rings[rank], rank=rank, epoch=3).state(step, 0, None, 0)
    assert all_step(rings[0], rings) == 33
    assert all_step(rings[0], ()) == 34
    rings[2].write_bytes(b"torn")
    assert all_step(rings[0], rings) is None
