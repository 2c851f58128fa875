"""What a node is given as a copy, or told of one, by strangers, liars and the dead."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from made_slots import content, held, made_seal, put_snapshot

from holdfast.checkpoint import peers
from holdfast.checkpoint.peers import Refused, fetch, key_of, send
from holdfast.checkpoint.slot_folder import SlotFolder
from holdfast.checkpoint.words import Seal
from holdfast.protocol.messages import Peer

KEY = key_of("file:///nowhere/life-1")


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(Refused) as caught:
        call()
    return str(caught.value)


class Liar:
    """A stranger at the port of a host: it says what a test gives it, once, and ends."""

    def __init__(self, says: bytes, *, stays: bool = False) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._says, self._stays = says, stays
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def peer(self) -> Peer:
        return Peer(address="127.0.0.1", port=self._server.getsockname()[1])

    def _serve(self) -> None:
        link, _ = self._server.accept()
        with link, link.makefile("rb") as file:
            file.readline()
            with suppress(ConnectionError):  # who asks has heard enough
                link.sendall(self._says)
            if self._stays:
                self._closed.wait(60)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._server.close()


@pytest.fixture
def lying() -> Iterator[Callable[..., Peer]]:
    liars: list[Liar] = []

    def begin(says: bytes, *, stays: bool = False) -> Peer:
        liars.append(Liar(says, stays=stays))
        return liars[-1].peer

    yield begin
    for liar in liars:
        liar.close()


def gives(seal: Seal, data: bytes, tmp_path: Path) -> bytes:
    """As a host says it, with the checksum of the step's true content."""
    slot = put_snapshot(tmp_path / "true", seal)
    return json.dumps({"xxh3": slot.known_sum(seal)}).encode()[:-1] + (
        b', "seal": ' + msgspec.json.encode(seal) + b"}\n" + data
    )


@pytest.mark.parametrize(
    ("seal", "data", "why"),
    [
        (made_seal(2), content(2)[:-1], "it ended in the middle"),
        (made_seal(2), content(4), "its checksum does not match"),
        (made_seal(4), content(4), "it gave another snapshot"),
        (made_seal(2, epoch=2), content(2), "it gave another snapshot"),
        (made_seal(2, rank=1), content(2), "it gave another snapshot"),
        (made_seal(2, job="other"), content(2), "it gave another snapshot"),
    ],
    ids=["cut", "changed", "other step", "other attempt", "other rank's", "other job's"],
)
def test_what_is_given_is_believed_only_if_it_is_that_and_whole(
    tmp_path: Path, lying: Callable[..., Peer], seal: Seal, data: bytes, why: str
) -> None:
    put_snapshot(tmp_path / "r0", made_seal(1))
    peer = lying(gives(seal, data, tmp_path))
    folder = SlotFolder(tmp_path / "r0")
    assert refused(lambda: fetch(peer, KEY, folder, ("job", 0, 2, 1))) == why
    assert (1, 2) not in held(folder.folder)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (b"", "it has ended the connection"),
        (b"{}\n", "it gave another snapshot"),
        (b"220 mail.example ESMTP\n", "it said something else: "),
    ],
    ids=["nothing", "an answer without a snapshot", "another protocol"],
)
def test_what_is_no_answer_is_said(
    tmp_path: Path, lying: Callable[..., Peer], says: bytes, why: str
) -> None:
    folder = SlotFolder(tmp_path / "r0")
    assert why in refused(lambda: fetch(lying(says), KEY, folder, ("job", 0, 2, 1)))
    assert not folder.sealed()


def test_a_node_that_takes_the_connection_and_says_nothing_is_given_up(
    tmp_path: Path, lying: Callable[..., Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "TIMEOUT_S", 0.2)
    with pytest.raises(TimeoutError):
        fetch(lying(b"", stays=True), KEY, SlotFolder(tmp_path / "r0"), ("job", 0, 2, 1))


@pytest.mark.parametrize("says", [b"", b"{}\n"], ids=["nothing", "that it has room"])
def test_a_node_that_says_no_more_than_that_has_no_copy(
    tmp_path: Path, lying: Callable[..., Peer], monkeypatch: pytest.MonkeyPatch, says: bytes
) -> None:
    """What it was sent may lie in buffers of the kernel."""
    monkeypatch.setattr(peers, "TIMEOUT_S", 0.2)
    seal = made_seal(2)
    slot, peer = put_snapshot(tmp_path / "here", seal), lying(says, stays=True)
    with slot.locked(exclusive=False) as fd:
        assert fd is not None
        with pytest.raises(TimeoutError):
            send(peer, KEY, slot, seal, fd, took=lambda _: None)
