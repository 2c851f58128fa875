"""TCP connections of this node's network, as the kernel's sock_diag(7) tells them.

Needs no right but to read a process's list of files. Asked for all connections of the network
namespace at once: /proc/PID/io does not count what `send` sends, and nothing else says how long a
message was on its way. Where the kernel does not tell, None is the answer, not zero.
"""

import os
import socket
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

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
_SOURCE_AT, _DESTINATION_AT, _COOKIE_AT, _INODE_AT, _ATTRIBUTES_AT = 8, 24, 44, 68, 72
"""In inet_diag_msg, after the header."""
_INFO: Final = struct.Struct("=68xI28xI16xQQ20xI8xQQ")
"""Of tcp_info: rtt, total_retrans, bytes_acked, bytes_received, data_segs_out, busy_time,
rwnd_limited (include/uapi/linux/tcp.h; Linux has the last two since 4.10)."""
_ERROR, _DONE = 2, 3


class Connection(NamedTuple):
    """One, since it was made. `cookie`: no other one of this kernel has it."""

    inode: int
    cookie: int
    local: str
    remote: str
    acknowledged_bytes: int
    received_bytes: int
    busy_us: int  # while something sent was not acknowledged, and the other side had room for more
    segments: int  # with data, sent
    resent: int  # of these, once more
    rtt_us: int  # smoothed


class Sockets:
    """All TCP connections of this network namespace."""

    def __init__(self) -> None:
        self._found: dict[int, int] | None = {}
        self._asked_s: float | None = None

    def bytes(self, pid: int, now: float) -> dict[int, int] | None:
        """Carried by each connection of the process so far, by inode; None where that cannot be
        known."""
        if self._asked_s is None or now - self._asked_s >= KEEP_S:
            all_ = connections()
            self._found = None if all_ is None else {each.inode: _carried(each) for each in all_}
            self._asked_s = now
        inodes = inodes_of(pid)
        if self._found is None or inodes is None:
            return None
        return {inode: self._found[inode] for inode in inodes & self._found.keys()}


def _carried(each: Connection) -> int:
    return each.acknowledged_bytes + each.received_bytes


def inodes_of(pid: int) -> set[int] | None:
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


def connections() -> list[Connection] | None:
    """All that there are now."""
    found: list[Connection] = []
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as link:
            link.settimeout(1.0)
            for family in (socket.AF_INET, socket.AF_INET6):
                found += _of_family(link, family)
    except (OSError, struct.error):
        return None
    return found


def _of_family(link: socket.socket, family: int) -> Iterator[Connection]:
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
            if (one := _read(data[at + _HEAD.size : at + length])) is not None:
                yield one
            at += (length + 3) & ~3


def _read(message: bytes) -> Connection | None:
    """None of one that no process has, or of which the kernel does not tell."""
    (inode,) = struct.unpack_from("=I", message, _INODE_AT)
    at = _ATTRIBUTES_AT
    while inode and at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == _TCP_INFO and length >= 4 + _INFO.size:
            rtt, resent, acked, received, segments, *times = _INFO.unpack_from(message, at + 4)
            busy = times[0] - times[1]
            (cookie,) = struct.unpack_from("=Q", message, _COOKIE_AT)
            ends = _address(message, _SOURCE_AT), _address(message, _DESTINATION_AT)
            return Connection(inode, cookie, *ends, acked, received, busy, segments, resent, rtt)
        at += max(4, (length + 3) & ~3)
    return None


def _address(message: bytes, at: int) -> str:
    """One of IPv4 is told as such, in whatever form the socket has it."""
    if message[0] == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, message[at : at + 4])
    whole = message[at : at + 16]
    if whole.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, whole[12:])
    return socket.inet_ntop(socket.AF_INET6, whole)


_MAPPED: Final = bytes(10) + b"\xff\xff"
