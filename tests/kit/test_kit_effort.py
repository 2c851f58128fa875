"""An import that gets on, however slowly, is told from one that stands still."""

import os
import signal
import subprocess
import sys
import tempfile
from io import StringIO
from typing import IO, Any

import pytest
from waiting import eventually

import holdfast.kit.effort
from holdfast.kit import procstat
from holdfast.kit.effort import BYTES_PER_S, CPU_SHARE, Effort, Standstill, effort

LOOK_S = 5.0


@pytest.mark.parametrize(
    ("cpu_share", "bytes_per_s", "gets_on"),
    [
        pytest.param(CPU_SHARE, 0, True, id="it computes, on a loaded machine"),
        pytest.param(0.0, BYTES_PER_S, True, id="it reads, from a slow disk"),
        pytest.param(1.0, 100 * BYTES_PER_S, True, id="both"),
        pytest.param(CPU_SHARE / 2, BYTES_PER_S // 2, False, id="it looks whether it may go on"),
        pytest.param(0.0, 0, False, id="it waits"),
    ],
)
def test_who_computes_or_reads_gets_on(cpu_share: float, bytes_per_s: int, gets_on: bool) -> None:
    still = Standstill(Effort(3.0, 1_000), 100.0)
    for look in range(1, 41):
        took_s = look * LOOK_S
        spent = Effort(3.0 + cpu_share * took_s, 1_000 + int(bytes_per_s * took_s))
        assert still.look(spent, 100.0 + took_s) == (0.0 if gets_on else took_s)


def test_it_counts_from_when_it_last_got_on() -> None:
    still = Standstill(Effort(0.0, 0), 0.0)
    assert still.look(Effort(0.0, 0), 50.0) == 50.0
    assert still.look(Effort(5.0, 0), 55.0) == 0.0
    assert still.look(Effort(5.0, 0), 75.0) == 20.0


def test_two_looks_at_one_moment_tell_nothing() -> None:
    still = Standstill(Effort(0.0, 0), 0.0)
    still.look(Effort(0.0, 0), 10.0)
    assert still.look(Effort(0.0, 0), 10.0) == 10.0


def test_what_a_process_reads_and_computes_is_in_it() -> None:
    before = effort(os.getpid())
    with tempfile.TemporaryFile() as file:
        file.write(bytes(BYTES_PER_S))
        file.seek(0)
        file.read()
    assert effort(os.getpid()).moved_bytes >= before.moved_bytes + BYTES_PER_S
    eventually(lambda: effort(os.getpid()).cpu_s > before.cpu_s, "each look costs some")


def test_what_comes_from_a_disk_without_a_call_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the pages of a library that is loaded do; whether they come from a disk is the kernel's
    business, so its file is written here.
    """
    said = "rchar: 1\nwchar: 20\nsyscr: 7\nsyscw: 7\nread_bytes: 300\nwrite_bytes: 7\n"

    def io(path: str, **how: Any) -> IO[str]:
        return StringIO(said) if path == f"/proc/{os.getpid()}/io" else open(path, **how)

    monkeypatch.setattr(holdfast.kit.effort, "open", io, raising=False)
    monkeypatch.setattr(holdfast.kit.effort.procstat, "descendants", lambda pid: [])  # of others
    assert effort(os.getpid()).moved_bytes == 321


WORKS = {
    "computes": "while True: pass",
    "writes": """
import os, socket
near, far = socket.socketpair()
with open(os.devnull, "wb") as file:
    while True:
        near.send(bytes(4096))
        file.write(far.recv(4096))
        file.flush()
""",
}


@pytest.mark.parametrize("work", WORKS)
def test_what_its_children_do_is_in_it(work: str) -> None:
    """An import may build an extension in a compiler, or fetch a file."""
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WORKS[work]!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], start_new_session=True) as process:
        try:
            before = eventually(lambda: procstat.children(process.pid) and effort(process.pid))
            assert before
            if work == "computes":
                eventually(lambda: effort(process.pid).cpu_s > before.cpu_s + 0.2)
            else:
                eventually(lambda: effort(process.pid).moved_bytes > before.moved_bytes + (1 << 22))
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_of_who_is_gone_there_is_nothing() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    assert effort(child) == Effort(0.0, 0)
