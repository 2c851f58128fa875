"""The side of copies that keeps them: what it takes, of whom, what it gives, and what it never has.

Each test speaks to a real one over a socket, whole or broken off.
"""

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_slots import SIZE_BYTES, content, held, made_seal, put_snapshot
from waiting import eventually

from holdfast.checkpoint import peer_host, slots
from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.early import Early
from holdfast.checkpoint.peer_host import Host
from holdfast.checkpoint.peers import Ask, Refused, fetch, key_of, send
from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.slots import Slot
from holdfast.checkpoint.words import Seal
from holdfast.protocol.messages import Peer

URL = "file:///nowhere/life-1"
KEY = key_of(URL)


class Keeps:
    """A host of copies for rank 1's node, and rank 0's node beside it."""

    def __init__(self, root: Path, host: Host) -> None:
        self.root, self.host = root, host
        self.peer = Peer(address="127.0.0.1", port=self.host.port)
        self.order()

    def order(self, **changes: Any) -> None:
        known: dict[str, Any] = {
            "id": 1,
            "job": "job",
            "epoch": 1,
            "ranks": (1,),
            "store_url": URL,
            "slots_root": str(self.root / "there"),
        }
        self.host.give(AgentOrder(**known | changes))

    def send(self, seal: Seal, key: str = KEY, whole: tuple[int, int] | None = None) -> None:
        shutil.rmtree(self.root / f"here-{seal.step}", ignore_errors=True)
        slot = put_snapshot(self.root / f"here-{seal.step}", seal)
        with slot.locked(exclusive=False) as fd:
            assert fd is not None
            send(self.peer, key, slot, seal, fd, whole=whole, took=lambda _: None)

    def fetch(self, step: int, *, rank: int = 0, job: str = "job", key: str = KEY) -> Path:
        back = self.root / "back"
        fetch(self.peer, key, SlotFolder(back), (job, rank, step, 1))
        return back

    @property
    def copies(self) -> Path:
        return self.root / "there" / "r0"


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    found = Host("127.0.0.1")
    yield found
    found.close()


@pytest.fixture
def keeps(tmp_path: Path, host: Host) -> Keeps:
    return Keeps(tmp_path, host)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(Refused) as caught:
        call()
    return str(caught.value)


# ---------------------------------------------------------------- what it takes


def test_what_was_sent_is_kept_and_given_back(keeps: Keeps) -> None:
    keeps.send(made_seal(2))
    assert held(keeps.copies) == [(1, 2)]
    assert held(keeps.fetch(2)) == [(1, 2)]


def test_three_are_kept_and_the_oldest_gives_way(keeps: Keeps) -> None:
    for step in (2, 4, 6, 8):
        keeps.send(made_seal(step))
    assert held(keeps.copies) == [(1, 8), (1, 6), (1, 4)]


def test_one_that_comes_again_takes_its_own_place(keeps: Keeps) -> None:
    """Else a node of which one rank cannot be sent would lose what it has whole of the others."""
    for step in (2, 4, 6, 6, 6, 6):
        keeps.send(made_seal(step))
    assert held(keeps.copies) == [(1, 6), (1, 4), (1, 2)]


def test_the_newest_of_which_all_ranks_have_copies_stays(keeps: Keeps) -> None:
    """Later ones of this rank alone are no use while another one's cannot be sent."""
    for step in (2, 4, 6, 8, 10):
        keeps.send(made_seal(step), whole=(1, 2))
    assert held(keeps.copies) == [(1, 10), (1, 8), (1, 2)]


def test_where_there_is_room_for_two_the_older_gives_way(
    keeps: Keeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (2, 4):
        keeps.send(made_seal(step))
    _fill(monkeypatch)
    keeps.send(made_seal(6))
    assert held(keeps.copies) == [(1, 6), (1, 4)]


def test_where_there_is_no_room_that_is_said_and_costs_nothing(
    keeps: Keeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (2, 4, 6):
        keeps.send(made_seal(step))
    _fill(monkeypatch)
    why = refused(lambda: keeps.send(made_seal(8, size_bytes=2 * SIZE_BYTES)))
    assert why.startswith("memory slots: 6.0 MB wanted in ")
    assert held(keeps.copies) == [(1, 6), (1, 4), (1, 2)]


def _fill(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of the node that keeps copies is full."""
    monkeypatch.setattr(slots, "free_bytes", lambda folder: 1e12 * ("there" not in folder.parts))


def half(keeps: Keeps, ask: Ask, data: bytes) -> None:
    """Send so much and break off, as a node that dies does."""
    with socket.create_connection((keeps.peer.address, keeps.peer.port)) as link:
        link.sendall(msgspec.json.encode(ask) + b"\n")
        assert link.recv(1), "it has room"
        link.sendall(data)


def asks(seal: Seal, xxh3: str = "0" * 16, **changes: Any) -> Ask:
    return Ask(**{"key": KEY, "job": "job", "rank": 0, "seal": seal, "xxh3": xxh3} | changes)


@pytest.mark.parametrize("sent", [0, 1 << 20, SIZE_BYTES - 1])
def test_one_that_breaks_off_is_no_copy_and_costs_only_the_oldest(keeps: Keeps, sent: int) -> None:
    for step in (2, 4, 6):
        keeps.send(made_seal(step))
    half(keeps, asks(made_seal(8)), content(8)[:sent])
    places = SlotFolder(keeps.copies).slots
    eventually(lambda: all(map(_is_free, places)), "it has let go of the slot")
    assert held(keeps.copies) == [(1, 6), (1, 4)]
    keeps.send(made_seal(10))
    assert held(keeps.copies) == [(1, 10), (1, 6), (1, 4)]


def _is_free(slot: Slot) -> bool:
    with slot.locked(exclusive=True) as fd:
        return fd is not None or not slot.data.exists()


def test_one_with_a_bit_that_changed_on_the_way_is_no_copy(keeps: Keeps) -> None:
    seal = made_seal(2)
    slot = put_snapshot(keeps.root / "here", seal)
    with slot.data.open("r+b") as file:
        file.seek(SIZE_BYTES - 1)
        file.write(b"\x77")
    with slot.locked(exclusive=False) as fd:
        assert fd is not None
        why = refused(lambda: send(keeps.peer, KEY, slot, seal, fd, took=lambda _: None))
    assert why == "its checksum does not match"
    assert held(keeps.copies) == []


@pytest.mark.parametrize(
    ("changes", "seal", "why"),
    [
        ({"key": key_of("file:///nowhere/life-2")}, made_seal(2), "the key is another job's"),
        ({"key": ""}, made_seal(2), "the key is another job's"),
        ({"job": "other"}, made_seal(2, job="other"), "no job other is here"),
        ({}, made_seal(2, job="other"), "it is another's"),
        ({}, made_seal(2, rank=2), "it is another's"),
        ({"rank": 1}, made_seal(2, rank=1), "that rank is here itself"),
    ],
    ids=["other life", "no key", "other job", "other job's seal", "other rank's", "its own rank"],
)
def test_what_is_not_this_jobs_is_not_taken(
    keeps: Keeps, changes: dict[str, Any], seal: Seal, why: str
) -> None:
    assert _told(keeps, msgspec.json.encode(asks(seal, **changes))) == why
    assert not list((keeps.root / "there").glob("*"))


def _told(keeps: Keeps, text: bytes) -> str:
    with socket.create_connection((keeps.peer.address, keeps.peer.port), timeout=10) as link:
        link.sendall(text + b"\n")
        with link.makefile("rb") as file:
            return str(json.loads(file.readline())["why"])


def test_what_is_no_question_is_refused_and_the_next_is_heard(keeps: Keeps) -> None:
    assert "JSON" in _told(keeps, b"GET / HTTP/1.1")
    keeps.send(made_seal(2))
    assert held(keeps.copies) == [(1, 2)]


def test_a_job_that_has_ended_gives_and_takes_nothing(keeps: Keeps) -> None:
    keeps.send(made_seal(2))
    keeps.order(forget_job="job")
    assert refused(lambda: keeps.send(made_seal(4))) == "job job has ended"
    assert refused(lambda: keeps.fetch(2)) == "job job has ended"


def test_a_copy_on_its_way_while_its_job_ends_is_gone_with_it(keeps: Keeps) -> None:
    """Its folder is deleted meanwhile: what comes to its end later must not make it anew."""
    seal = made_seal(2)
    with socket.create_connection((keeps.peer.address, keeps.peer.port), timeout=10) as link:
        link.sendall(msgspec.json.encode(asks(seal)) + b"\n")
        assert link.recv(1), "it has room"
        keeps.order(forget_job="job")
        shutil.rmtree(keeps.copies)
        link.sendall(content(2))
        link.shutdown(socket.SHUT_WR)
        while link.recv(1 << 16):
            pass
    assert not keeps.copies.exists()


def test_who_says_nothing_more_holds_no_slot_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_host, "TIMEOUT_S", 0.2)
    impatient = Host("127.0.0.1")
    keeps = Keeps(tmp_path, impatient)
    try:
        with socket.create_connection((keeps.peer.address, keeps.peer.port), timeout=10) as link:
            link.sendall(msgspec.json.encode(asks(made_seal(2))) + b"\n")
            assert link.recv(1), "it has room"
            slot = SlotFolder(keeps.copies).slots[0]
            eventually(lambda: _is_free(slot), "it has given the sender up")
    finally:
        impatient.close()


def test_no_slots_are_made_early_for_copies(keeps: Keeps) -> None:
    keeps.send(made_seal(2))
    folder = SlotFolder(keeps.copies)
    Early({0: folder}, print).fill(lambda _: None)
    assert [slot.data.exists() for slot in folder.slots] == [True, *[False] * 5]
    folder.ask_room(SIZE_BYTES)  # a rank of that number has come to this node
    Early({0: folder}, print, free_bytes=lambda: None).fill(lambda _: None)
    assert [slot.data.exists() for slot in folder.slots] == [True] * 4 + [False] * 2


# ---------------------------------------------------------------- what it gives


def test_only_what_was_asked_for_is_given(keeps: Keeps) -> None:
    keeps.send(made_seal(2, epoch=2))
    keeps.send(made_seal(4))
    assert refused(lambda: keeps.fetch(2)) == "step 2 is not there", "that of another attempt"
    assert refused(lambda: keeps.fetch(6)) == "step 6 is not there"
    assert refused(lambda: keeps.fetch(4, rank=2)) == "step 4 is not there"
    assert refused(lambda: keeps.fetch(4, job="other")) == "no job other is here"
    assert refused(lambda: keeps.fetch(4, key="x")) == "the key is another job's"


def test_a_snapshot_that_is_written_over_or_has_changed_is_not_given(keeps: Keeps) -> None:
    keeps.send(made_seal(2))
    slot, seal = SlotFolder(keeps.copies).sealed()[0]
    with slot.locked(exclusive=True):
        assert refused(lambda: keeps.fetch(2)) == "step 2 is being written over"
    with slot.data.open("r+b") as file:
        file.write(b"\x77")  # in its header
    assert refused(lambda: keeps.fetch(2)) == "step 2 in memory has changed since it was sealed"
    assert seal.step == 2


def test_a_snapshot_that_is_being_given_is_not_written_over(keeps: Keeps) -> None:
    for step in (2, 4, 6):  # more than what buffers of the kernel take
        keeps.send(made_seal(step, size_bytes=32_000_000))
    ask = Ask(key=KEY, job="job", rank=0, wants=(1, 2))
    with socket.create_connection((keeps.peer.address, keeps.peer.port), timeout=10) as link:
        link.sendall(msgspec.json.encode(ask) + b"\n")
        assert link.recv(1), "it gives"
        keeps.send(made_seal(8))
        assert held(keeps.copies) == [(1, 8), (1, 6), (1, 2)]
        while link.recv(1 << 20):
            pass
