"""What listens on NCCL's port in tests: a RAS that answers from a record, or something else."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Behave = Callable[[socket.socket], None]


@contextmanager
def listening(behave: Behave) -> Iterator[tuple[str, int]]:
    """Its address; each connection is treated as `behave` does, one after another."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, behave))
        thread.start()
        try:
            yield server.getsockname()
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(server: socket.socket, behave: Behave) -> None:
    while True:
        try:
            link, _ = server.accept()
        except OSError:
            return
        with link, suppress(OSError):  # who asks may have had enough
            behave(link)


def ras(answer: bytes, *, protocol: int = 2, json: bool = True) -> Behave:
    """One of NCCL (2.28.7 and later, where it has JSON), as its source has it."""
    replies = {
        b"client protocol 2": b"SERVER PROTOCOL %d\n" % protocol,
        b"timeout 2": b"OK\n",
        b"set format json": b"OK\n" if json else b"ERROR: Unknown command SET FORMAT json\n",
    }

    def behave(link: socket.socket) -> None:
        for line in link.makefile("rb"):
            if line.strip().lower() == b"verbose status":
                link.sendall(answer)
                return
            link.sendall(replies[line.strip().lower()])

    return behave


def says(data: bytes) -> Behave:
    """Something else that speaks at once, and waits for an end."""

    def behave(link: socket.socket) -> None:
        link.sendall(data)
        while link.recv(1 << 16):
            pass

    return behave
