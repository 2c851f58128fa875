"""Messages to bytes and back. What is not one of ours is a `ProtocolError`, in a sentence."""

from typing import Any, Generic, TypeVar

import msgspec

from holdfast.protocol.messages import MAX_FRAME_BYTES, Message

T = TypeVar("T")

_ENCODER = msgspec.msgpack.Encoder()


class ProtocolError(ValueError):
    """A frame, or what it says, is not of this protocol. The message is fit to send to the peer."""


def encode(message: Message) -> bytes:
    return _ENCODER.encode(message)


class Decoder(Generic[T]):
    """Decodes the messages of one direction, e.g. `Decoder(FromDaemon)`."""

    def __init__(self, kinds: Any) -> None:
        self._decoder = msgspec.msgpack.Decoder(kinds)

    def decode(self, frame: bytes | str) -> T:
        """The message in `frame`. Raises `ProtocolError` naming what is wrong with it."""
        if isinstance(frame, str):
            raise ProtocolError("frame: text, but this protocol is msgpack in binary frames")
        if len(frame) > MAX_FRAME_BYTES:
            raise ProtocolError(f"frame: {len(frame)} bytes, the limit is {MAX_FRAME_BYTES}")
        try:
            return self._decoder.decode(frame)  # type: ignore[no-any-return]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProtocolError(f"frame: {error}") from error
