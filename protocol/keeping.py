"""What the keeper's clients say to it over its Unix socket, and the frames it travels in. Pure.

Used by the keeper and by the driver's `local_cluster` adapter. One request a connection: a call is
answered by `Done` or `Failed`, `WatchFacts` by a `NodeFact` for every node and then one for each
change until either side hangs up. A frame is a length of four octets (big-endian) and msgpack.
"""

import struct

import msgspec

MAX_FRAME_BYTES = 1 << 16
"""A larger frame is refused: the longest is a `NodeFact` with a sentence in it."""

LENGTH = struct.Struct(">I")


class Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Base of everything said here; the class name is the tag."""


class WatchFacts(Said, frozen=True):
    """Tell every node as it is now, then each change."""


class Allocate(Said, frozen=True):
    """Give the node to the job. Refused where the node is absent, distrusted or another job's.

    `trial`: a distrusted node is to be tested for it, and is given.
    """

    job: str
    node: str
    trial: bool = False


class Release(Said, frozen=True):
    """Take the node back from its job; done also where it had none."""

    node: str


class Distrust(Said, frozen=True):
    """Keep new work off the node; kept across restarts of the keeper."""

    node: str
    incident: int
    reason: str


class Trust(Said, frozen=True):
    """Take the mark of `Distrust` away; done also where there was none."""

    node: str


class Done(Said, frozen=True):
    """The call did what it says."""


class Failed(Said, frozen=True):
    """The call changed nothing. `permanent`: asking again will not help."""

    why: str
    permanent: bool = False


class NodeFact(Said, frozen=True):
    """A node as the keeper knows it, from its lease."""

    node: str
    rack: str = ""
    present: bool = True
    distrusted: bool = False
    why: str = ""


Request = WatchFacts | Allocate | Release | Distrust | Trust
Answer = Done | Failed | NodeFact


class NotOurs(ValueError):
    """Bytes that are not of this protocol; the message says what is wrong with them."""


def frame(said: Said) -> bytes:
    """`said` with its length before it."""
    body = msgspec.msgpack.encode(said)
    return LENGTH.pack(len(body)) + body


def body_length(head: bytes) -> int:
    """Octets that follow `head`. Raises `NotOurs` above the limit."""
    length: int = LENGTH.unpack(head)[0]
    if length > MAX_FRAME_BYTES:
        raise NotOurs(f"frame: {length} octets, the limit is {MAX_FRAME_BYTES}")
    return length


_REQUESTS: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_ANSWERS: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def request_of(body: bytes) -> Request:
    """The request in `body`. Raises `NotOurs` naming what is wrong."""
    try:
        return _REQUESTS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotOurs(f"request: {error}") from error


def answer_of(body: bytes) -> Answer:
    """The answer in `body`. Raises `NotOurs` naming what is wrong."""
    try:
        return _ANSWERS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotOurs(f"answer: {error}") from error
