"""The state as bytes, for the journal, whole or what changed; with the version of their form. Pure.

A patch has a version, too, and is of the state that was committed before it.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from holdfast.driver.core.state.census import plain
from holdfast.driver.core.state.model import State
from holdfast.driver.formats import older, older_tally
from holdfast.driver.formats.patches import apply, diff

VERSION = 7
"""Of the form. One more for each change after which an earlier Holdfast would read another meaning
out of the bytes, or leave out what it must not: a field that only adds is none."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(State)
_VERSIONED = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_PAIR = 0x92
"""What an array of two begins with in MessagePack; the state itself, a mapping, never does. Before
there were versions that was all there was."""


class UnreadableState(ValueError):
    """The state cannot be read; the message says why, and what to do."""


class LaterState(UnreadableState):
    """It was written by a later Holdfast."""


def encode(state: State) -> bytes:
    return _ENCODER.encode((VERSION, settled(state)))


def encode_change(before: State, after: State) -> bytes:
    """What makes `after` of `before`."""
    before = settled(before)
    after = after if before.nodes else settled(after)  # the first nodes are written whole
    return _ENCODER.encode((VERSION, diff(before, after)))


def settled(state: State) -> State:
    """The same, with its nodes in a dict, as it is kept and written."""
    return state if isinstance(state.nodes, dict) else replace(state, nodes=plain(state.nodes))


def fold(whole: bytes, changes: Iterable[bytes]) -> bytes:
    """The state after all changes, as `encode` would give it, but for the order of fields. Raises
    `UnreadableState`.
    """
    try:
        version, state = _parts(whole)
        value = msgspec.msgpack.decode(state)
        for each in changes:  # of one term with the whole, and of one Holdfast therefore
            value = apply(value, msgspec.msgpack.decode(_parts(each)[1]))
    except UnreadableState:
        raise
    except (*_DAMAGED, ValueError) as error:
        raise _damaged(error) from error
    return _ENCODER.encode((version, value))


def decode(data: bytes) -> State:
    """The state in `data`. Raises `UnreadableState`."""
    try:
        version, state = _parts(data)
        if version == VERSION:
            return _DECODER.decode(state)
        value = older.upgraded(msgspec.msgpack.decode(state), version)
        return older_tally.of_today(_DECODER.decode(_ENCODER.encode(value)), older.running(value))
    except UnreadableState:
        raise
    except (*_DAMAGED, ValueError) as error:
        raise _damaged(error) from error


_DAMAGED = (msgspec.DecodeError, AttributeError, IndexError, KeyError, TypeError)
"""What a patch meets that is not of the value that it is put on."""


def _damaged(error: Exception) -> UnreadableState:
    if isinstance(error, msgspec.ValidationError) and "Invalid enum value" in str(error):
        # A word more, as of what is found, is no reason for a version: where none is there, an
        # earlier Holdfast reads the state.
        return LaterState(
            f"journal: its state has a word that this Holdfast does not know ({error}): it was "
            "written by a later one. Start that, or put a journal back from before."
        )
    return UnreadableState(
        f"journal: its state is damaged ({type(error).__name__}: {error}). Put a journal back from "
        "a backup, or start with another --state."
    )


def _parts(data: bytes) -> tuple[int, bytes | msgspec.Raw]:
    """The version, and what stands beside it."""
    if data[:1] != bytes([_PAIR]):
        return 0, data
    version, state = _VERSIONED.decode(data)
    if version > VERSION:
        raise LaterState(
            f"journal: its state has version {version}, and this Holdfast knows {VERSION} and "
            "earlier: it was written by a later one. Start that, or put a journal back from before."
        )
    return version, state
