"""What a process moves that makes no progress: bytes of files and of connections, its children."""

import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from waiting import eventually

from holdfast.daemon.samplers.activity import Moves
from holdfast.daemon.samplers.sockets import Sockets

MIB = 1 << 20
LONG_S = 100.0
"""Between two looks: what this process reads meanwhile for other reasons is little in so long."""


@pytest.fixture
def moves() -> Moves:
    """Of this process, looked at once."""
    made = Moves(os.getpid(), Sockets())
    made.look(0.0)
    return made


def test_nothing_moves_while_nothing_does(moves: Moves) -> None:
    moves.look(LONG_S)
    assert (moves.ago_s(LONG_S), moves.what, moves.unseen) == (None, "", ())


@pytest.fixture
def stream() -> Iterator[socket.socket]:
    """One end of a connection whose other end takes all."""
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as server,
        closing(socket.create_connection(server.getsockname())) as mine,
    ):
        theirs, _ = server.accept()
        reader = threading.Thread(target=lambda: [0 for _ in iter(lambda: theirs.recv(MIB), b"")])
        reader.start()
        yield mine
        mine.close()
        reader.join()
        theirs.close()


def test_bytes_of_connections_count_which_proc_does_not_tell(stream: socket.socket) -> None:
    moves = Moves(os.getpid(), Sockets())
    moves.look(0.0)
    stream.sendall(bytes(64 * MIB))
    moves.look(LONG_S)
    assert moves.ago_s(LONG_S + 1) == 1.0
    assert moves.what.startswith("its connections carry ")
    moves.rest()
    assert moves.ago_s(LONG_S + 1) is None


def test_bytes_of_files_count(moves: Moves, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(bytes(16 * MIB))
    moves.look(LONG_S)
    assert moves.what.startswith("reads or writes ")


def test_pages_of_a_library_count_which_no_call_reads(tmp_path: Path) -> None:
    with (tmp_path / "library").open("w+b") as file:
        file.write(bytes(16 * MIB))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        moves = Moves(os.getpid(), Sockets())
        moves.look(0.0)
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
            read_before = from_disk()
            sum(pages[:: mmap.PAGESIZE])
            if from_disk() == read_before:
                pytest.skip("files of this test are in memory, and come from no disk")
    moves.look(LONG_S)
    assert moves.what.startswith("loads ")


def from_disk() -> int:
    fields = Path("/proc/self/io").read_text().split()
    return int(fields[fields.index("read_bytes:") + 1])


def test_children_that_compute_count() -> None:
    spins = ["sh", "-c", "while :; do :; done & wait"]
    with subprocess.Popen(spins, start_new_session=True) as parent:
        try:
            moves = Moves(parent.pid, Sockets())

            def looked() -> bool:
                moves.look(time.monotonic())
                return moves.what.startswith("its child processes use ")

            eventually(looked, "the child is seen to compute")
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


def test_a_process_that_is_gone_moves_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
        moves = Moves(child.pid, Sockets())
        moves.look(0.0)
        moves.look(LONG_S)
        assert moves.ago_s(LONG_S) is None
