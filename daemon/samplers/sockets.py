"""Bytes that a process's TCP connections carried, from the kernel's sock_diag(7).

Needs no right but to read the process's list of files. Asked for all connections of the node's
network at once, at most once in `KEEP_S`: /proc/PID/io does not count what `send` sends. Where the
kernel does not tell, None is the answer, not zero.
"""

import os
import socket
import struct
from typing import Final

from holdfast.daemon.samplers import processes

KEEP_S = 0.25
"""How long an answer is good for: the ranks of a node are looked at one after another."""

_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_REQUEST_ALL: Final = 0x301
_TCP_INFO: Final = 2
_ALL_STATES: Final = 0xFFFF_FFFF
_HEAD: Final = struct.Struct("=IHHII")
"""nlmsghdr: length, type, flags, sequence, port."""
_INODE_AT: Final = 68
_ATTRIBUTES_AT: Final = 72
"""In inet_diag_msg, after the header."""
_BYTES_AT: Final = 120
"""In tcp_info: bytes that the peer acknowledged, and bytes received."""
_ERROR, _DONE = 2, 3


class Sockets:
    """All TCP connections of this network namespace, by inode."""

    def __init__(self) -> None:
        self._bytes: dict[int, int] | None = {}
        self._asked_s: float | None = None

    def bytes(self, pid: int, now: float) -> dict[int, int] | None:
        """Carried by each connection of the process so far; None where that cannot be known."""
        if self._asked_s is None or now - self._asked_s >= KEEP_S:
            self._bytes, self._asked_s = _ask(), now
        inodes = _inodes(pid)
        if self._bytes is None or inodes is None:
            return None
        return {inode: self._bytes[inode] for inode in inodes & self._bytes.keys()}


def _inodes(pid: int) -> set[int] | None:
    """Of the process's sockets; None where its files may not be read."""
    found: set[int] = set()
    try:
        for link in (processes.PROC / str(pid) / "fd").iterdir():
            try:
                name = os.readlink(link)
            except FileNotFoundError:
                continue
            if name.startswith("socket:["):
                found.add(int(name[8:-1]))
    except (FileNotFoundError, ProcessLookupError):
        return set()
    except OSError:
        return None
    return found


def _ask() -> dict[int, int] | None:
    found: dict[int, int] = {}
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as link:
            link.settimeout(1.0)
            for family in (socket.AF_INET, socket.AF_INET6):
                _ask_family(link, family, found)
    except (OSError, struct.error):
        return None
    return found


def _ask_family(link: socket.socket, family: int, found: dict[int, int]) -> None:
    """Raises `OSError` where the kernel refuses."""
    wanted = 1 << (_TCP_INFO - 1)
    ask = struct.pack("=BBBxI48x", family, socket.IPPROTO_TCP, wanted, _ALL_STATES)
    link.send(_HEAD.pack(_HEAD.size + len(ask), _BY_FAMILY, _REQUEST_ALL, 1, 0) + ask)
    while True:
        data, at = link.recv(1 << 18), 0
        while at < len(data):
            length, kind, *_ = _HEAD.unpack_from(data, at)
            if kind == _DONE:
                return
            if kind == _ERROR:
                raise OSError(-struct.unpack_from("=i", data, at + _HEAD.size)[0], "sock_diag")
            _take(data[at + _HEAD.size : at + length], found)
            at += (length + 3) & ~3


def _take(message: bytes, found: dict[int, int]) -> None:
    (inode,) = struct.unpack_from("=I", message, _INODE_AT)
    at = _ATTRIBUTES_AT
    while inode and at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == _TCP_INFO and length >= 4 + _BYTES_AT + 16:
            sent, received = struct.unpack_from("=QQ", message, at + 4 + _BYTES_AT)
            found[inode] = sent + received
        at += max(4, (length + 3) & ~3)
