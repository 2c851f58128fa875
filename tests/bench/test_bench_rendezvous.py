"""The benchmark of groups: every way comes to its end, and each client is told the right table."""

from pathlib import Path

import pytest
from redis_server import redis_server

pytest.importorskip("torch")
from holdfast.bench.figures import Incomplete, Try, figures
from holdfast.bench.rendezvous import benchmark, standing
from holdfast.lab import redis

pytestmark = pytest.mark.torch


def measured(clients: int = 20) -> list[Try]:
    tries: list[Try] = []
    benchmark.measure(1, tries.append, lambda what: None, clients=[clients], counts=[64])
    return tries


def test_each_system_is_measured_and_what_groups_ask_is_counted() -> None:
    with redis_server():  # where there is none, there is nothing to measure
        found = {(one.figure, one.system): one.median for one in figures(measured())}
    count = "store operations a rank, all groups of 64 ranks"
    assert (found.pop((count, "holdfast")), found.pop((count, "torch TCPStore"))) == (8, 160)
    figure = "20 clients know all addresses, from the last arrival"
    assert set(found) == {
        (figure, system)
        for system in ("bare sockets", "holdfast", "holdfast on a TCPStore", "torch TCPStore")
    }
    assert all(median is not None and median > 0 for median in found.values())


def test_clients_are_told_the_addresses_of_all_in_their_order() -> None:
    with redis_server() as server:
        for turn in (1, 2):
            assert standing.ours(server.url, 50, turn) > 0
            table = standing.told(server.url, 50, turn)
            assert table == [standing.address(client) for client in range(50)]


def test_without_a_redis_it_says_so_after_what_it_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "_from_wheel", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Incomplete, match="no Redis here: install its server"):
        measured()


def test_nothing_is_left_of_its_redis(tmp_path: Path) -> None:
    with redis_server() as server:
        port = server.port
    with pytest.raises(ConnectionRefusedError):
        standing._connected(port)
