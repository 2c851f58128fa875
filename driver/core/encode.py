"""The state as bytes, for the journal. Pure."""

import msgspec

from holdfast.driver.core.model import State

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(State)


def encode(state: State) -> bytes:
    return _ENCODER.encode(state)


def decode(data: bytes) -> State:
    """The state in `data`. Raises `msgspec.DecodeError` for what `encode` did not write."""
    return _DECODER.decode(data)
