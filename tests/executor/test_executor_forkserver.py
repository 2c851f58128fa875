"""The fork server by itself: who gets something of it, and what it is asked by."""

import mmap
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from waiting import eventually

from holdfast.cli import warming
from holdfast.cli.main import main
from holdfast.executor.adapters.launcher import FORCED
from holdfast.executor.forkserver import BOOT
from holdfast.executor.forkserver.files import Files
from holdfast.executor.forkserver.marks import room
from holdfast.keeper import warmed
from holdfast.keeper.warmed import Asker, NotForked, asked
from holdfast.kit.surroundings import surroundings
from holdfast.protocol.forkserving import (
    FOLDER,
    LOCK,
    SOCKET,
    Answer,
    End,
    NotTaken,
    Process,
    Program,
    Taken,
    Tell,
    Told,
    why_not_private,
)

READ = "MPMATH_STRICT"
"""`mpmath` reads it when it is imported."""


class Asking:
    """A fork server that has imported `mpmath`, and questions to it."""

    def __init__(self, folder: Path, idle_s: float = 600.0) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700)
        self.environment = {**os.environ, **FORCED}
        self.process = subprocess.Popen(
            [sys.executable, "-c", BOOT, str(folder), str(idle_s), "mpmath"],
            env={**self.environment, **room()},
            stdout=subprocess.PIPE,
            cwd="/",
        )
        assert self.process.stdout is not None
        self.first: Answer = msgspec.json.decode(self.process.stdout.readline(), type=Answer)
        self.lifeline, self.other_end = os.pipe()

    def wanted(self, **more: object) -> Process:
        program = Program(
            module="holdfast.keeper.host",  # it ends at once: its configuration is not there
            title="host",
            arguments=("/nowhere/host.config.json",),
            environment=dict(os.environ),
            log=str(self.folder / "host.log"),
        )
        fields = {
            "program": program,
            "imports": self.environment,
            "surroundings": surroundings(),
            "marks": {"HOLDFAST_RUN_ID": "0123"},
            "workdir": "/",
            "umask": 0o022,
        }
        return Process(lifeline=9, **(fields | more))  # type: ignore[arg-type]

    def ask(self, **more: object) -> Answer:
        return asked(self.folder, self.wanted(**more), self.lifeline)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        os.close(self.lifeline)
        os.close(self.other_end)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    made = Asking(tmp_path_factory.mktemp("forkserver") / "w")
    yield made
    made.close()


def test_who_is_alike_gets_a_process(server: Asking) -> None:
    answer = server.ask()
    assert isinstance(answer, Taken)
    eventually(lambda: not Path(f"/proc/{answer.pid}").exists(), "it ends, and is reaped")
    log = (server.folder / "host.log").read_text()
    assert "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere" in log


def _with(name: str, value: str) -> Callable[[Asking], dict[str, object]]:
    return lambda server: {"imports": {**server.environment, name: value}}


def _around(name: str, value: str) -> Callable[[Asking], dict[str, object]]:
    return lambda _: {"surroundings": {**surroundings(), name: value}}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (_with("LD_PRELOAD", "/lib/x.so"), "the variable LD_PRELOAD has another value"),
        (_with("CUDA_VISIBLE_DEVICES", "1"), "the variable CUDA_VISIBLE_DEVICES has another value"),
        (_with("PYTHONHASHSEED", "7"), "the variable PYTHONHASHSEED has another value"),
        (_with("NPY_DISABLE_CPU_FEATURES", "X86_V3"), "the variable NPY_DISABLE_CPU_FEATURES has"),
        (_with("PROMETHEUS_MULTIPROC_DIR", "/x"), "the variable PROMETHEUS_MULTIPROC_DIR has"),
        (_with("LC_ALL", "tr_TR.UTF-8"), "the variable LC_ALL has another value"),
        (_with(READ, "Y"), f"the variable {READ} has another value"),
        (_around("niceness", "5"), "niceness: 0 there, 5 here"),
        (_around("control group", "0::/x"), "control group: "),
        (_around("limit: Max open files", "7"), "limit: Max open files: "),
        (_around("ignored signals", "1"), "ignored signals: "),
        (_around("interpreter", "/usr/bin/python3"), "interpreter: "),
    ],
)
def test_who_is_not_alike_gets_nothing(
    server: Asking, more: Callable[[Asking], dict[str, object]], why: str
) -> None:
    answer = server.ask(**more(server))
    assert isinstance(answer, NotTaken)
    assert answer.why.startswith(why)
    told = asked(server.folder, Tell())
    assert isinstance(told, Told)
    assert told.refused[-1] == answer.why


def test_a_variable_that_no_import_reads_may_differ(server: Asking) -> None:
    assert isinstance(server.ask(imports={**server.environment, "LR": "3"}), Taken)


def test_a_value_is_not_told(server: Asking) -> None:
    answer = server.ask(imports={**server.environment, "TORCH_SECRET": "s3cret"})
    assert isinstance(answer, NotTaken)
    assert "s3cret" not in answer.why


@pytest.mark.parametrize("packet", [b"", b"{", b"\x80\x04.", b'{"type":"Fork"}', b"x" * 100_000])
def test_what_is_no_question_changes_nothing(server: Asking, packet: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(str(server.folder / SOCKET))
        link.send(packet)
        link.settimeout(30.0)
        assert link.recv(10) == b""
    assert isinstance(server.ask(), Taken)


def test_who_says_nothing_holds_up_nobody_for_long(server: Asking) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(str(server.folder / SOCKET))
        link.settimeout(30.0)
        assert link.recv(10) == b""


def test_only_a_folder_of_its_user_alone_is_believed(server: Asking) -> None:
    server.folder.chmod(0o755)
    try:
        with pytest.raises(NotForked, match="is not a folder of mode 0700"):
            server.ask()
    finally:
        server.folder.chmod(0o700)


def test_there_is_one_in_a_folder(server: Asking) -> None:
    words = [sys.executable, "-c", BOOT, str(server.folder), "60"]
    environment = {**server.environment, **room()}
    done = subprocess.run(words, env=environment, capture_output=True, check=True)
    assert isinstance(msgspec.json.decode(done.stdout, type=Answer), NotTaken)
    assert isinstance(server.ask(), Taken)


def test_it_ends_when_nobody_asks_and_leaves_no_socket(tmp_path: Path) -> None:
    made = Asking(tmp_path / "w", idle_s=0.01)
    assert made.process.wait(60) == 0
    assert [path.name for path in made.folder.iterdir()] == [LOCK]
    made.close()


def test_it_ends_when_told(tmp_path: Path) -> None:
    made = Asking(tmp_path / "w")
    assert isinstance(asked(made.folder, End()), Told)
    assert made.process.wait(60) == 0
    with pytest.raises(NotForked):
        made.ask()
    made.close()


def test_a_module_that_was_edited_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("edited")
    module.__file__ = str(tmp_path / "edited.py")
    Path(module.__file__).write_text("")
    monkeypatch.setitem(sys.modules, "edited", module)
    files = Files()
    assert not files.changed()
    Path(module.__file__).write_text("x")
    assert files.changed() == f"{module.__file__} has changed since it was imported"


def test_what_was_removed_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("removed")
    module.__file__ = str(tmp_path / "removed.py")
    Path(module.__file__).write_text("")
    monkeypatch.setitem(sys.modules, "removed", module)
    files = Files()
    Path(module.__file__).unlink()
    assert files.changed()


def test_a_server_that_stands_still_is_waited_for_once(
    server: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(server.folder))
    monkeypatch.setattr(warmed, "ANSWERS_IN_S", 0.2)
    asker, wanted = Asker(), server.wanted()

    def pid() -> int | None:
        told = {"imports": server.environment, "marks": {}, "lifeline": server.lifeline}
        return asker.process(wanted.program, **told)  # type: ignore[arg-type]

    assert pid()
    os.kill(server.process.pid, signal.SIGSTOP)
    assert pid() is None
    os.kill(server.process.pid, signal.SIGCONT)
    assert pid() is None


def test_holdfast_warm_stop_kills_nobody_whose_pid_a_server_of_another_container_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Asking(tmp_path / "w")
    monkeypatch.setenv(FOLDER, str(made.folder))
    monkeypatch.setattr(warming, "ENDS_WITHIN_S", 0.2)
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        (made.folder / LOCK).write_text(str(bystander.pid))  # the pid that it has there
        assert main(["warm", "--stop"]) != 0
        assert bystander.poll() is None
        bystander.kill()
    assert f"it is of another container, with pid {bystander.pid} there" in capsys.readouterr().err
    assert isinstance(made.ask(), Taken)
    made.close()


@pytest.mark.parametrize("hangs", [False, True])
def test_holdfast_warm_stop_ends_also_one_that_hangs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    hangs: bool,
) -> None:
    made = Asking(tmp_path / "w")
    monkeypatch.setenv(FOLDER, str(made.folder))
    monkeypatch.setattr(warmed, "ANSWERS_IN_S", 0.2)
    monkeypatch.setattr(warming, "ENDS_WITHIN_S", 0.2 if hangs else 60.0)
    if hangs:
        os.kill(made.process.pid, signal.SIGSTOP)
        assert main(["warm", "--status"]) != 0
    assert main(["warm", "--stop"]) == 0
    assert capsys.readouterr().out == f"pid {made.process.pid} has ended\n"
    assert made.process.wait(60) == (-signal.SIGKILL if hangs else 0)
    assert [path.name for path in made.folder.iterdir()] == [LOCK]
    assert main(["warm", "--stop"]) == 0
    assert capsys.readouterr().out == "none was there\n"
    made.close()


def test_what_it_forks_is_as_it_was_asked_for(server: Asking, tmp_path: Path) -> None:
    """`json.tool` reads a file in its working folder, and writes another one there."""
    os.mkfifo(tmp_path / "in")
    log = tmp_path / "log"
    log.write_text("before\n")
    program = Program(
        module="json.tool",
        title="tool",
        arguments=("in", "out"),
        environment=dict(os.environ),
        log=str(log),
    )
    answer = server.ask(program=program, workdir=str(tmp_path), umask=0o077)
    assert isinstance(answer, Taken)
    told = Path(f"/proc/{answer.pid}")
    with (tmp_path / "in").open("w") as writing:
        assert b"HOLDFAST_RUN_ID=0123\0" in (told / "environ").read_bytes()
        assert os.getsid(answer.pid) == answer.pid
        lifeline = os.readlink(told / "fd/9")
        assert lifeline == os.readlink(f"/proc/self/fd/{server.lifeline}")
        writing.write("{}")
    eventually(lambda: not told.exists(), "it ends, and is reaped")
    assert log.read_text().startswith("before\n")
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600


def test_who_only_looks_does_not_keep_it(tmp_path: Path) -> None:
    made = Asking(tmp_path / "w", idle_s=1.0)

    def over() -> bool:
        with suppress(NotForked):
            asked(made.folder, Tell())
        return made.process.poll() is not None

    eventually(over, "it ends though it is looked at")
    made.close()


def test_a_folder_of_another_user_is_not_believed(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert not why_not_private(tmp_path, os.getuid())
    assert why_not_private(tmp_path, os.getuid() + 1).endswith("belongs to another user")


def test_a_package_that_is_installed_is_noticed_and_a_library_that_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages, library = tmp_path / "packages", tmp_path / "lib.so"
    packages.mkdir()
    library.write_bytes(b"x" * 4_096)
    monkeypatch.setattr("site.getsitepackages", lambda: [str(packages)])
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        files = Files()
        assert not files.changed()
        library.write_bytes(b"y" * 4_097)
        assert files.changed().startswith(str(library))
        files = Files()
        (packages / "new").mkdir()
        assert files.changed().startswith(str(packages))


def test_all_that_a_process_inherits_is_compared() -> None:
    status = ("Uid", "Gid", "Groups", "CapEff", "NoNewPrivs", "Seccomp", "Cpus_allowed_list")
    others = ("control group", "out-of-memory score", "personality", "niceness", "root folder")
    spaces = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
    assert set(surroundings()) >= {
        *(f"{name} (/proc/self/status)" for name in status),
        *(f"{name} namespace" for name in spaces),
        *others,
        *("limit: Max open files", "ignored signals", "blocked signals", "scheduling policy"),
        *("interpreter", "environment of Python", "version of Python"),
    }
