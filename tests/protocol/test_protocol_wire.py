"""Frames: whole messages come back, anything else is refused in a sentence."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol import messages
from holdfast.protocol.wire import Decoder, ProtocolError, encode

DIRECTIONS = {
    "to executor": messages.ToExecutor,
    "from executor": messages.FromExecutor,
    "to daemon": messages.ToDaemon,
    "from daemon": messages.FromDaemon,
}
HELLO = messages.Hello(protocol=1, process="daemon", node="node-1", incarnation="a")


@pytest.mark.parametrize("kinds", DIRECTIONS.values(), ids=DIRECTIONS.keys())
def test_every_direction_carries_a_refusal(kinds: object) -> None:
    refusal = messages.Refused(what="epoch 3", why="epoch 4 was accepted", fix="send epoch 5")
    assert Decoder[object](kinds).decode(encode(refusal)) == refusal


@given(st.binary(max_size=200))
def test_noise_is_refused_and_never_raises_anything_else(frame: bytes) -> None:
    decoder: Decoder[object] = Decoder(messages.FromDaemon)
    with pytest.raises(ProtocolError, match=r"^frame: "):
        decoder.decode(frame)


def test_a_message_of_another_direction_is_refused() -> None:
    decoder: Decoder[object] = Decoder(messages.ToExecutor)
    with pytest.raises(ProtocolError, match="Hello"):
        decoder.decode(encode(HELLO))


def test_text_and_oversized_frames_are_refused_by_size_and_kind() -> None:
    decoder: Decoder[object] = Decoder(messages.FromDaemon)
    with pytest.raises(ProtocolError, match="text"):
        decoder.decode("hello")
    with pytest.raises(ProtocolError, match="limit is 1048576"):
        decoder.decode(b"x" * (messages.MAX_FRAME_BYTES + 1))


def test_a_field_that_a_newer_peer_added_is_passed_over() -> None:
    fields = msgspec.msgpack.decode(encode(HELLO)) | {"colour": "blue"}
    decoder: Decoder[object] = Decoder(messages.FromDaemon)
    assert decoder.decode(msgspec.msgpack.encode(fields)) == HELLO
