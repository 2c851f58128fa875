"""What a process sends over real connections, as the daemon tells it."""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from waiting import eventually

from holdfast.daemon.samplers import flows, sockets
from holdfast.daemon.samplers.flows import EVERY_S, MOST, Flows
from holdfast.daemon.samplers.sockets import Connection
from holdfast.protocol.messages import Flow

HERE, THERE = "127.0.0.1", "127.0.0.7"
"""Two addresses of this machine: what goes from one to the other leaves the first."""


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server((THERE, 0)))
        near = socket.create_connection(server.getsockname(), source_address=(HERE, 0))
        stack.enter_context(near)
        far = stack.enter_context(server.accept()[0])
        yield near, far


def to(told: tuple[Flow, ...], remote: str = THERE) -> Flow | None:
    return next((each for each in told if each.remote == remote), None)


def send(near: socket.socket, far: socket.socket, count: int) -> None:
    """And wait until the other side's kernel has acknowledged it."""
    near.sendall(bytes(count))
    left = count
    while left:
        left -= len(far.recv(left))
    inode = os.fstat(near.fileno()).st_ino

    def acknowledged() -> bool:
        found = sockets.connections() or []
        return any(each.inode == inode and each.acknowledged_bytes >= count for each in found)

    eventually(acknowledged, "it is acknowledged")


def test_bytes_to_another_address_are_told_as_sums(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    sampler = Flows(lambda: [os.getpid()])
    send(*ends, 100_000)
    first = to(sampler.sample(0.0))
    assert first is not None
    assert (first.local, first.sent_bytes >= 100_000, first.segments > 0) == (HERE, True, True)
    assert sampler.sample(EVERY_S / 2) == ()
    send(*ends, 50_000)
    more = to(sampler.sample(EVERY_S))
    assert more is not None
    assert more.sent_bytes - first.sent_bytes == 50_000
    assert more.busy_s >= first.busy_s
    assert to(sampler.sample(2 * EVERY_S)) is None, "nothing has moved"


def test_what_a_connection_sent_is_not_forgotten_with_it(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    sampler = Flows(lambda: [os.getpid()])
    send(*ends, 100_000)
    before = to(sampler.sample(0.0))
    ends[0].close()
    server = socket.create_server((THERE, 0))
    near = socket.create_connection(server.getsockname(), source_address=(HERE, 0))
    far = server.accept()[0]
    with server, near, far:
        send(near, far, 30_000)
        after = to(sampler.sample(EVERY_S))
    assert before is not None
    assert after is not None
    assert after.sent_bytes - before.sent_bytes in (30_000, 30_001), "a SYN counts as a byte"


def test_who_does_not_read_keeps_no_link_busy(ends: tuple[socket.socket, socket.socket]) -> None:
    """As a consumer that is slow: its buffer is full, and the link has nothing to do."""
    near, _ = ends
    near.settimeout(0.2)
    with suppress(TimeoutError):
        while True:
            near.send(bytes(1 << 20))
    inode = os.fstat(near.fileno()).st_ino

    def all_busy_s() -> float:
        told = near.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        (busy_us,) = struct.unpack_from("=Q", told, 168)
        return float(busy_us / 1e6)

    eventually(lambda: all_busy_s() > 1.0, "it waited for the other")
    (seen,) = (each for each in sockets.connections() or () if each.inode == inode)
    assert 0 <= seen.busy_us / 1e6 < all_busy_s() / 2


def test_other_processes_connections_are_not_told(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    send(*ends, 100_000)
    assert to(Flows(lambda: [1]).sample(0.0)) is None
    assert Flows(list).sample(0.0) == ()


def test_a_connection_of_a_rank_that_was_not_known_is_told_once_it_is(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    pids = [1]
    sampler = Flows(lambda: pids)
    send(*ends, 100_000)
    assert to(sampler.sample(0.0)) is None
    pids.append(os.getpid())
    assert to(sampler.sample(EVERY_S)) is not None


def test_a_kernel_that_does_not_tell_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = Flows(lambda: [os.getpid()])
    monkeypatch.setattr(sockets, "connections", lambda: None)
    assert sampler.sample(0.0) == ()
    assert sampler.unreadable == flows.UNREADABLE
    monkeypatch.setattr(sockets, "connections", list)
    assert (sampler.sample(EVERY_S), sampler.unreadable) == ((), ())


def test_of_many_the_busiest_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(number: int) -> Connection:
        address = f"10.0.0.{number}"
        return Connection(number, number, HERE, address, 9, 9, 1_000 * number, 1, 0, 50)

    monkeypatch.setattr(sockets, "connections", lambda: [made(n) for n in range(1, 41)])
    monkeypatch.setattr(sockets, "inodes_of", lambda pid: set(range(1, 41)))
    told = Flows(lambda: [7]).sample(0.0)
    assert {each.remote for each in told} == {f"10.0.0.{n}" for n in range(41 - MOST, 41)}


def test_of_several_connections_the_longest_round_trip_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def made(number: int, rtt_us: int) -> Connection:
        return Connection(number, number, HERE, THERE, 9, 9, 1_000, 1, 0, rtt_us)

    monkeypatch.setattr(sockets, "connections", lambda: [made(1, 300), made(2, 900), made(3, 50)])
    monkeypatch.setattr(sockets, "inodes_of", lambda pid: {1, 2, 3})
    (told,) = Flows(lambda: [7]).sample(0.0)
    assert (told.rtt_s, told.sent_bytes) == (0.0009, 27)


def test_the_ranks_of_another_attempt_begin_with_nothing(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    pids = [os.getpid()]
    sampler = Flows(lambda: pids)
    send(*ends, 100_000)
    assert to(sampler.sample(0.0)) is not None
    pids.clear()
    assert sampler.sample(EVERY_S) == ()
    pids.append(os.getpid())
    again = to(sampler.sample(2 * EVERY_S))
    assert again is not None
    assert 100_000 <= again.sent_bytes < 110_000


def test_an_address_of_ipv4_is_told_as_such_also_of_a_socket_of_ipv6() -> None:
    with ExitStack() as stack:
        wide = {"family": socket.AF_INET6, "dualstack_ipv6": True}
        server = stack.enter_context(socket.create_server(("::", 0), **wide))
        near = stack.enter_context(socket.create_connection((THERE, server.getsockname()[1])))
        far = stack.enter_context(server.accept()[0])
        assert far.family == socket.AF_INET6
        send(far, near, 1_000)
        inode = os.fstat(far.fileno()).st_ino
        (seen,) = (each for each in sockets.connections() or () if each.inode == inode)
    assert (seen.local, seen.remote) == (THERE, HERE)


def test_the_ranks_of_a_node_share_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[None]()
    monkeypatch.setattr(sockets, "connections", lambda: asked.append(None))
    all_ = sockets.Sockets()
    for now in (0.0, 0.1, 0.2, 0.3):
        all_.bytes(os.getpid(), now)
    assert len(asked) == 2
