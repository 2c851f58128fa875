"""Clients with standing connections, of which each is to be told all addresses once all have come.

Used by `benchmark`. Two ways: a Redis as our store uses it, and sockets with nothing between, which
is the least that it can take. Clients share one process, which only sends and receives.
"""

import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

import redis

from holdfast.bench.figures import Incomplete
from holdfast.rendezvous.orders import Orders
from holdfast.rendezvous.redis_store import RedisStore

LIMIT_S = 120.0
TABLE = struct.Struct(">I")
CHUNK_BYTES = 1 << 20


def address(client: int) -> bytes:
    """As long as one is."""
    return f"10.{client >> 16}.{client >> 8 & 255}.{client & 255}:40000".encode()


def collect(
    sockets: Sequence[socket.socket], arrive: Callable[[int], None], size: Callable[[int], int]
) -> float:
    """All but the last come; seconds from the last one's arrival until each has read its answer.

    `arrive` sends for a client; `size` says how many bytes are still to come of its answer, given
    what has.
    """
    for client in range(len(sockets) - 1):
        arrive(client)
    with selectors.DefaultSelector() as waiting:
        for client, each in enumerate(sockets):
            each.setblocking(False)
            waiting.register(each, selectors.EVENT_READ, client)
        got = [0] * len(sockets)
        left = len(sockets)
        began = time.perf_counter()
        sockets[-1].setblocking(True)
        arrive(len(sockets) - 1)
        sockets[-1].setblocking(False)
        buffer = bytearray(CHUNK_BYTES)
        while left:
            ready = waiting.select(LIMIT_S)
            if not ready:
                raise Incomplete(f"{left} of {len(sockets)} clients were told nothing")
            for key, _ in ready:
                got[key.data] += _read(key.fileobj, buffer)  # type: ignore[arg-type]
                if size(got[key.data]) <= 0:
                    waiting.unregister(key.fileobj)
                    left -= 1
        return time.perf_counter() - began


def _read(each: socket.socket, buffer: bytearray) -> int:
    count = each.recv_into(buffer)
    if not count:
        raise Incomplete("a connection ended before its client was told")
    return count


# ------------------------------------------------------------------ bare sockets


def bare(clients: int) -> float:
    """Seconds, with a process between them that takes an address from each and sends all of them
    to each."""
    with _server(clients) as port, ExitStack() as stack:
        sockets = [stack.enter_context(_connected(port)) for _ in range(clients)]
        whole = sum(len(address(client)) for client in range(clients)) + TABLE.size
        return collect(
            sockets,
            lambda client: sockets[client].sendall(address(client).ljust(32)),
            lambda got: whole - got,
        )


def _connected(port: int | None, host: str | None = "127.0.0.1") -> socket.socket:
    one = socket.create_connection((host, port), timeout=LIMIT_S)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one


@contextmanager
def _server(clients: int) -> Iterator[int]:
    ours, theirs = get_context("fork").Pipe()
    process = get_context("fork").Process(target=_serve, args=(clients, theirs), daemon=True)
    process.start()
    try:
        yield int(ours.recv())
    finally:
        process.kill()
        process.join()


def _serve(clients: int, told: Connection) -> None:
    """In a process of its own."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        told.send(listener.getsockname()[1])
        connections = [listener.accept()[0] for _ in range(clients)]
    came = [each.recv(32, socket.MSG_WAITALL).rstrip() for each in connections]
    body = b"".join(came)
    table = TABLE.pack(len(body)) + body
    _send_all(connections, table)
    told.recv()  # until we are killed: what was sent is still to be read


def _send_all(connections: Sequence[socket.socket], table: bytes) -> None:
    """To each as much as it takes, in turn, so that none waits for a slow one."""
    view = memoryview(table)
    with selectors.DefaultSelector() as waiting:
        for each in connections:
            each.setblocking(False)
            waiting.register(each, selectors.EVENT_WRITE, 0)
        while waiting.get_map():
            for key, _ in waiting.select():
                sent = key.data + key.fileobj.send(view[key.data :])  # type: ignore[union-attr]
                if sent == len(table):
                    waiting.unregister(key.fileobj)
                else:
                    waiting.modify(key.fileobj, selectors.EVENT_WRITE, sent)


# ------------------------------------------------------------------ our store


def ours(url: str, clients: int, turn: int) -> float:
    """Seconds with our store on the Redis at `url`: each sends what `set` and `multi_get` send, and
    reads what those wait for."""
    pack: Callable[..., list[bytes]] = redis.Connection().pack_commands  # type: ignore[no-untyped-call]
    with RedisStore(url, job=f"bench-{clients}", attempt=turn):  # its scripts are there after that
        orders = Orders(job=f"bench-{clients}", attempt=turn)
        want, table = orders.whole("addresses/", clients)
        host, port = urlsplit(url).hostname, urlsplit(url).port

        def arrive(client: int) -> None:
            said = orders.script("SET", [f"addresses/{client}"], address(client))
            asked = pack([said, want, orders.wait(table, LIMIT_S)])
            sockets[client].sendall(b"".join(asked))

        body = sum(len(address(client)) + TABLE.size for client in range(clients))
        whole = len(f":1\r\n:1\r\n${body}\r\n") + body + len("\r\n")
        with ExitStack() as stack:
            sockets = [stack.enter_context(_connected(port, host)) for _ in range(clients)]
            return collect(sockets, arrive, lambda got: whole - got)


def told(url: str, clients: int, turn: int) -> list[bytes]:
    """What they were told in that turn."""
    with RedisStore(url, job=f"bench-{clients}", attempt=turn) as store:
        return store.multi_get([f"addresses/{client}" for client in range(clients)])
