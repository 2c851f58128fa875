"""The side of copies that sends them: which step, once, of which attempt, and with what in the way.

Its thread does not run: a test asks it for one round after another, in a time that stands still.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from made_slots import SIZE_BYTES, held, made_seal, put_snapshot
from waiting import eventually

from holdfast.checkpoint import peer_sender
from holdfast.checkpoint.agent_protocol import AgentOrder
from holdfast.checkpoint.pace import Pace
from holdfast.checkpoint.peer_host import Host
from holdfast.checkpoint.peer_sender import Sender
from holdfast.checkpoint.peers import Refused
from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.kit.clock import SystemClock
from holdfast.protocol.messages import Peer, UploadLimits

URL = "file:///nowhere/life-1"


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    found = Host("127.0.0.1")
    yield found
    found.close()


class Standing(SystemClock):
    """Time does not pass."""

    def monotonic_s(self) -> float:
        return 0.0


class Sends:
    """A node of ranks 0 and 1 that sends every second step, and one of ranks 2 and 3 that keeps."""

    def __init__(self, root: Path, host: Host) -> None:
        self.root, self.told = root, []
        self.rested: list[float] = []
        self.pace = Pace(Standing(), self.rested.append)
        self.sender = Sender(self.pace, self.told.append)
        self.peer = Peer(address="127.0.0.1", port=host.port)
        known = {"id": 1, "job": "job", "epoch": 1, "world_size": 4, "store_url": URL}
        there = str(root / "there")
        host.give(AgentOrder(**known | {"ranks": (2, 3), "slots_root": there}))

    def order(self, **changes: Any) -> AgentOrder:
        known: dict[str, Any] = {
            "id": 1,
            "job": "job",
            "epoch": 1,
            "ranks": (0, 1),
            "slots": {rank: str(self.root / f"r{rank}") for rank in (0, 1)},
            "store_url": URL,
            "peer_interval_steps": 2,
            "peer": self.peer,
        }
        return AgentOrder(**known | changes)

    def save(self, step: int, *, epoch: int = 1, ranks: tuple[int, ...] = (0, 1)) -> None:
        for rank in ranks:
            put_snapshot(self.root / f"r{rank}", made_seal(step, epoch=epoch, rank=rank))

    def round(self, **changes: Any) -> None:
        order = self.order(**changes)
        assert order.peer is not None
        self.sender._advance(order, order.peer)

    def copies(self) -> dict[int, list[tuple[int, int]]]:
        return {rank: held(self.root / "there" / f"r{rank}") for rank in (0, 1)}

    def marks(self) -> list[tuple[int, int] | None]:
        return [SlotFolder(self.root / f"r{rank}").copied() for rank in (0, 1)]


@pytest.fixture
def sends(tmp_path: Path, host: Host) -> Sends:
    return Sends(tmp_path, host)


def test_the_newest_step_that_is_due_and_that_all_have_goes(sends: Sends) -> None:
    for step in (2, 4, 5):
        sends.save(step)
    sends.save(6, ranks=(0,))
    sends.round()
    assert sends.copies() == {0: [(1, 4)], 1: [(1, 4)]}
    assert sends.marks() == [(1, 4), (1, 4)]


def test_a_step_goes_once_and_an_older_one_not_after_it(sends: Sends) -> None:
    sends.save(4)
    sends.round()
    (sends.root / "there").rename(sends.root / "aside")
    sends.save(2)
    sends.round()
    assert sends.copies() == {0: [], 1: []}


def test_a_new_attempt_sends_its_own_steps_though_the_last_one_had_got_further(
    sends: Sends,
) -> None:
    sends.save(6)
    sends.round()
    sends.save(4, epoch=2)
    sends.round(epoch=2)
    assert sends.copies() == {0: [(2, 4), (1, 6)], 1: [(2, 4), (1, 6)]}
    assert sends.marks() == [(2, 4), (2, 4)]


def test_what_an_older_attempt_left_is_not_sent_by_a_newer_one(sends: Sends) -> None:
    sends.save(6)
    sends.round(epoch=2)
    assert sends.copies() == {0: [], 1: []}
    assert sends.marks() == [None, None]


def test_a_step_of_which_one_rank_could_not_be_sent_is_not_copied(sends: Sends) -> None:
    """Else the rank would give up what it has copied before, which is all that is whole there."""
    sends.save(2)
    sends.round()
    sends.save(4)
    slot = SlotFolder(sends.root / "r1").find(step=4, epoch=1)
    assert slot is not None
    with slot[0].data.open("r+b") as file:
        file.write(b"\x77")
    with pytest.raises(Refused, match="step 4 in memory has changed"):
        sends.round()
    assert sends.marks() == [(1, 2), (1, 2)]
    sends.save(6)
    sends.round()
    assert sends.marks() == [(1, 6), (1, 6)]


def test_a_rank_that_cannot_be_sent_leaves_the_others_what_is_whole(sends: Sends) -> None:
    sends.save(2)
    sends.round()
    for step in (4, 6, 8):
        sends.save(step)
        found = SlotFolder(sends.root / "r1").find(step=step, epoch=1)
        assert found is not None
        with found[0].locked(exclusive=True):
            for _ in range(3):
                sends.round()
    assert sends.copies() == {0: [(1, 8), (1, 6), (1, 2)], 1: [(1, 2)]}


def test_a_slot_that_its_rank_is_writing_over_is_not_sent(sends: Sends) -> None:
    sends.save(2)
    found = SlotFolder(sends.root / "r1").find(step=2, epoch=1)
    assert found is not None
    with found[0].locked(exclusive=True):
        sends.round()
    assert sends.copies()[1] == []
    assert sends.marks() == [None, None]
    sends.round()
    assert sends.copies() == {0: [(1, 2)], 1: [(1, 2)]}


def test_no_more_is_sent_a_second_than_allowed(sends: Sends) -> None:
    sends.pace.limits = UploadLimits(mb_per_s=1.0)
    sends.save(2)
    sends.round()
    assert sends.rested[-1] == pytest.approx(2 * SIZE_BYTES / 1e6)


# ---------------------------------------------------------------- its thread


@pytest.fixture
def running(sends: Sends, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Give orders to a sender whose thread runs."""
    monkeypatch.setattr(peer_sender, "RETRY_S", 0.01)
    closed = Event()
    thread = Thread(target=sends.sender.run, args=(closed, 0.01))
    thread.start()
    yield lambda **changes: sends.sender.give(sends.order(**changes))
    closed.set()
    thread.join()


def test_what_could_not_be_sent_is_told_and_sent_once_somebody_is_there(
    sends: Sends, running: Callable[..., None]
) -> None:
    sends.save(2)
    running(peer=Peer(address="127.0.0.1", port=1))
    eventually(lambda: sends.told, "it is told")
    assert sends.told[0].startswith("no copy on 127.0.0.1: [Errno 111] Connection refused")
    assert sends.marks() == [None, None]
    running()
    eventually(lambda: sends.marks() == [(1, 2), (1, 2)], "it is sent")
    assert sends.copies() == {0: [(1, 2)], 1: [(1, 2)]}


@pytest.mark.parametrize("changes", [{"peer": None}, {"ranks": ()}], ids=["no peer", "no rank"])
def test_without_a_peer_or_a_rank_nothing_is_sent(
    sends: Sends, running: Callable[..., None], changes: dict[str, Any]
) -> None:
    sends.save(2)
    running(**changes)
    sends.save(4)
    running()
    eventually(lambda: sends.marks() == [(1, 4), (1, 4)], "the next order's is sent")
    assert sends.copies() == {0: [(1, 4)], 1: [(1, 4)]}
    assert not sends.told
