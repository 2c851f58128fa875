"""Protobuf's wire format, as much of it as a trace for Perfetto needs. Pure.

https://protobuf.dev/programming-guides/encoding: a field is a key, its number and type, and then a
varint, eight octets, or octets with their length before them.
"""

from struct import pack

_VARINT, _FIXED64, _BYTES = 0, 1, 2


def varint(number: int) -> bytes:
    """Seven bits an octet, the lowest first; a negative number is one of 64 bits."""
    number &= 0xFFFF_FFFF_FFFF_FFFF
    said = bytearray()
    while number > 0x7F:
        said.append(number & 0x7F | 0x80)
        number >>= 7
    said.append(number)
    return bytes(said)


def whole(field: int, number: int) -> bytes:
    return varint(field << 3 | _VARINT) + varint(number)


def fixed(field: int, number: int) -> bytes:
    return varint(field << 3 | _FIXED64) + pack("<Q", number & 0xFFFF_FFFF_FFFF_FFFF)


def real(field: int, number: float) -> bytes:
    return varint(field << 3 | _FIXED64) + pack("<d", number)


def octets(field: int, data: bytes) -> bytes:
    """Also a message in a message."""
    return varint(field << 3 | _BYTES) + varint(len(data)) + data


def text(field: int, said: str) -> bytes:
    return octets(field, said.encode(errors="replace"))
