"""JSON under a checksum of itself, so that a torn or altered file is known for one. Pure.

The form of manifests and their parts in the store, and of seals and the small words in memory.
"""

from typing import TypeVar

import msgspec
import xxhash

T = TypeVar("T")


class Altered(ValueError):
    """The bytes are not what was written; the message says how that was seen."""


class _Checked(msgspec.Struct, frozen=True):
    xxh3: str
    content: msgspec.Raw


# Made at import: where two threads decode a Struct for the first time at one moment, msgspec 0.22
# shows the second one a type whose fields are not known yet, and the process ends by SIGSEGV.
_CHECKED = msgspec.json.Decoder(_Checked)


def encode(content: object) -> bytes:
    """The file's bytes: `{"xxh3": …, "content": …}`, XXH3 of 64 bit in hexadecimal."""
    data = msgspec.json.encode(content)
    return msgspec.json.encode(_Checked(xxhash.xxh3_64_hexdigest(data), msgspec.Raw(data)))


def decode(data: bytes, words: msgspec.json.Decoder[T]) -> T:
    """What `encode` was given. Raises `Altered`."""
    try:
        checked = _CHECKED.decode(data)
        if xxhash.xxh3_64_hexdigest(bytes(checked.content)) != checked.xxh3:
            raise Altered("its checksum does not match its content")
        return words.decode(checked.content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Altered(f"it cannot be read: {error}") from error
