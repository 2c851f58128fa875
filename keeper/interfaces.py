"""Which network interface of this machine has an address. Linux.

Used by a pod's first process: Kubernetes tells a pod its address and not the interface, which the
collectives of ranks have to be told.
"""

import fcntl
import ipaddress
import socket
import struct
from pathlib import Path

SIOCGIFADDR = 0x8915  # netdevice(7)
IPV6_ADDRESSES = Path("/proc/net/if_inet6")


def interface_of(address: str) -> str:
    """Name of the interface with this IP address; "" where none has it."""
    wanted = ipaddress.ip_address(address)
    if wanted.version == 6:
        return _interface_of_ipv6(wanted.packed.hex())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            if _ipv4(asked, name) == wanted.packed:
                return name
    return ""


def _ipv4(asked: socket.socket, name: str) -> bytes:
    """Its address, empty where it has none; the answer is a `struct ifreq` with a sockaddr_in."""
    try:
        answer = fcntl.ioctl(asked, SIOCGIFADDR, struct.pack("256s", name.encode()))
    except OSError:
        return b""
    return answer[20:24]


def _interface_of_ipv6(digits: str) -> str:
    for line in IPV6_ADDRESSES.read_text().splitlines():
        known, *_, name = line.split()
        if known == digits:
            return name
    return ""
