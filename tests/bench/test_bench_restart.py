"""The bench's own tools: marks read from outside, a guard that leaves nothing."""

import mmap
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import sleep

import pytest
from waiting import eventually

from holdfast.bench import main
from holdfast.bench.figures import Incomplete
from holdfast.bench.restart import page_cache
from holdfast.bench.restart.benchmark import measure, round_of
from holdfast.bench.restart.guarded import Guarded
from holdfast.bench.restart.launch import COLD
from holdfast.bench.restart.marks import RANKS, Marks, pid_writing
from holdfast.bench.restart.turns import connections

FAMILY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[2] == "deaf" else signal.SIG_DFL)
if os.fork() == 0:
    os.setsid()  # a grandchild in a session of its own, deaf to SIGTERM
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork():
        os._exit(0)
with open(f"{sys.argv[1]}/{os.getpid()}", "w") as file:
    time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def family(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir()]


def guarded(folder: Path, log: Path, *, deaf: str = "") -> Guarded:
    command = [sys.executable, "-c", FAMILY, str(folder), deaf]
    return Guarded(command, log=log, cwd=folder, more={})


@pytest.mark.parametrize("way", ["end", "kill"])
def test_nothing_of_a_guarded_command_is_left(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "pids"
    folder.mkdir()
    with guarded(folder, tmp_path / "log") as running:
        eventually(lambda: len(family(folder)) == 2)
        pids = family(folder)
        assert all(alive(pid) for pid in pids)
        getattr(running, way)()
        assert not any(alive(pid) for pid in pids)


def test_a_guarded_command_ends_with_whoever_started_it(tmp_path: Path) -> None:
    folder = tmp_path / "pids"
    folder.mkdir()
    program = (
        "import sys, time; from pathlib import Path\n"
        "from holdfast.bench.restart.guarded import Guarded\n"
        f"command = [sys.executable, '-c', {FAMILY!r}, {str(folder)!r}, '']\n"
        f"Guarded(command, log=Path({str(tmp_path / 'log')!r}), cwd=Path('/'), more={{}})\n"
        "time.sleep(600)"
    )
    starter = subprocess.Popen([sys.executable, "-c", program])
    try:
        eventually(lambda: len(family(folder)) == 2)
    finally:
        starter.kill()
        starter.wait()
    eventually(lambda: not any(alive(pid) for pid in family(folder)))


def put(folder: Path, rank: int, *marks: tuple[int, int, int]) -> None:
    with (folder / f"marks.rank_{rank}").open("a") as file:
        file.writelines(f"{step} {at_ns} {life}\n" for step, at_ns, life in marks)


def test_the_way_back_ends_when_the_last_rank_does_a_step_that_no_rank_had_done(
    tmp_path: Path,
) -> None:
    marks = Marks(tmp_path)
    for rank in range(RANKS):
        put(tmp_path, rank, (1, 10, rank), (2, 20, rank))
    put(tmp_path, 3, (3, 30, 3))  # one rank was a step ahead
    marks.read()
    old = marks.lives()
    assert (marks.common(), marks.reached(old)) == (2, 3)
    for rank in range(RANKS):
        put(tmp_path, rank, (3, 100 + rank, 10 + rank))
    marks.read()
    assert marks.all_beyond_ns(marks.reached(old), without=old) is None
    for rank in range(RANKS):
        put(tmp_path, rank, (4, 200 + rank, 10 + rank))
    marks.read()
    assert marks.all_beyond_ns(marks.reached(old), without=old) == 200 + RANKS - 1
    assert marks.repeated() == 1


def test_half_a_mark_waits_for_its_rest(tmp_path: Path) -> None:
    marks = Marks(tmp_path)
    for rank in range(RANKS):
        put(tmp_path, rank, (1, 10, rank))
    with (tmp_path / "marks.rank_0").open("a") as file:
        file.write("2 2")
        file.flush()
        marks.read()
        assert marks.common() == 1
        file.write("0 0\n")
    marks.read()
    assert marks.by_rank[0][-1] == (2, 20, 0)


def test_the_writer_of_a_file_is_told_from_its_readers(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("w"), path.open():
        assert pid_writing(path) == os.getpid()
    with path.open(), pytest.raises(LookupError, match="no process writes"):
        pid_writing(path)


def test_both_systems_are_measured_turn_by_turn_and_take_the_first_turn_in_turn() -> None:
    first, second = round_of(0), round_of(1)
    for turns in (first, second):
        for what in ("rank killed (SIGKILL)", "rank stopped (SIGSTOP)", "node lost", COLD):
            systems = {turn.system for turn in turns if turn.what == what}
            assert systems == {"holdfast", "torchrun"}
    assert first[0].system != second[0].system


def test_a_name_that_no_turn_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(Incomplete, match=r"--only 'lunch': .* launch after holdfast warm"):
        measure(1, pytest.fail, pytest.fail, only="lunch")


def test_what_nobody_holds_is_forgotten_and_what_somebody_maps_is_told(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * page_cache.LARGE_BYTES)
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        with mmap.mmap(file.fileno(), 0) as held:
            assert held[:: mmap.PAGESIZE]
            assert page_cache.forget(tmp_path) == 1.0
    assert page_cache.forget(tmp_path) == 0.0


def test_a_python_without_the_extension_is_refused_before_anything_is_started(
    tmp_path: Path,
) -> None:
    for python, said in ((sys.executable, "has no nvidia-res"), (str(tmp_path), "Name a Python")):
        with pytest.raises(Incomplete, match=said):
            measure(1, pytest.fail, pytest.fail, nvrx=python)


def test_the_child_of_a_guarded_command_is_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with Guarded(command, log=tmp_path / "log", cwd=tmp_path, more={}) as running:
        eventually(lambda: running.child is not None)
        assert running.child is not None
        assert not running.ended
        assert b"sleep" in Path(f"/proc/{running.child}/cmdline").read_bytes()
        os.kill(running.child, signal.SIGKILL)
        eventually(lambda: running.failed)


def test_connections_to_a_port_are_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert connections(port) == 0
        with socket.create_connection(("127.0.0.1", port)):
            eventually(lambda: connections(port) == 1)


def test_a_ctrl_c_tells_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(rounds: int, take: Callable[[object], None], say: Callable[[str], None]) -> None:
        take(main.Try(system="holdfast", figure="launch", value=float(rounds)))
        os.kill(os.getpid(), signal.SIGINT)
        sleep(5)

    monkeypatch.setitem(main.BENCHMARKS, "planted", measure)
    assert main.run("planted", rounds=2, as_json=True) == 130
    assert '"median":2.0' in capsys.readouterr().out
