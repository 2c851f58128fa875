"""The small files beside a rank's memory slots, by which rank and agent know what these hold.

Each is JSON under a checksum (`checked`): a flipped bit in a step must not be believed. Put in
place by rename, so that a reader sees the old word or the new. Must not load torch.
"""

from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.checkpoint import checked
from holdfast.kit.files import write_atomic
from holdfast.protocol.topology import Topology

T = TypeVar("T")


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """What a sealed slot holds. `tree` is the state's structure, with all but its tensors.

    The data begins with a header of `head_bytes`, whose XXH3 the rank took of what it meant to
    write: from a header that has changed since, nothing in the slot could be found.
    """

    job: str
    epoch: int
    step: int
    rank: int
    world_size: int
    topology: Topology
    used_bytes: int
    head_bytes: int
    head_xxh3: str
    tree: msgspec.Raw

    @property
    def age(self) -> tuple[int, int]:
        """Order of seals: later epochs know the true history, then later steps."""
        return (self.epoch, self.step)


class Sum(msgspec.Struct, frozen=True):
    """The checksum that the rank took of a seal and of the data it speaks for (`digest`)."""

    epoch: int
    step: int
    xxh3: str


class Uploaded(msgspec.Struct, frozen=True):
    """The last snapshot that the agent has dealt with for the store, or copied to another node."""

    epoch: int
    step: int


class Skipped(msgspec.Struct, frozen=True):
    """How many saves the rank refused in this epoch, how many of them since the last that it made,
    and why the last one, and of which step.
    """

    epoch: int
    count: int
    in_a_row: int
    why: str
    step: int = -1


# Made at import, as `checked` says.
SEAL = msgspec.json.Decoder(Seal)
SUM = msgspec.json.Decoder(Sum)
UPLOADED = msgspec.json.Decoder(Uploaded)
SKIPPED = msgspec.json.Decoder(Skipped)
ROOM = msgspec.json.Decoder(int)


def read(path: Path, words: msgspec.json.Decoder[T]) -> T | None:
    """What the file says; None where there is none, or one that is not what was written."""
    try:
        return checked.decode(path.read_bytes(), words)
    except (FileNotFoundError, checked.Altered):
        return None


def write(path: Path, word: object) -> None:
    """Raises `OSError` with the older word in its place."""
    write_atomic(path, checked.encode(word), mode=0o600)
