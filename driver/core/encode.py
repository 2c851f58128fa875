"""The state as bytes, for the journal, with the version of their form. Pure."""

import msgspec

from holdfast.driver.core.model import State

VERSION = 1
"""Of the form. One more for each change after which an earlier Holdfast would read another meaning
out of the bytes, or leave out what it must not: a field that only adds is none."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(State)
_VERSIONED = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_PAIR = 0x92
"""What an array of two begins with in MessagePack; the state itself, a mapping, never does. Before
there were versions that was all there was."""


class LaterState(ValueError):
    """The state was written by a later Holdfast; the message says what to do."""


def encode(state: State) -> bytes:
    return _ENCODER.encode((VERSION, state))


def decode(data: bytes) -> State:
    """The state in `data`. Raises `LaterState`, or `msgspec.DecodeError` for what `encode` did not
    write.
    """
    if data[:1] != bytes([_PAIR]):
        return _DECODER.decode(data)
    version, state = _VERSIONED.decode(data)
    if version > VERSION:
        raise LaterState(
            f"journal: its state has version {version}, and this Holdfast knows {VERSION} and "
            "earlier: it was written by a later one. Start that, or put a journal back from before."
        )
    return _DECODER.decode(state)
