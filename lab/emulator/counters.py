"""Each node's /sys tree for its NIC, fed from the link's real counters, from outside the node.

Called by the emulator's factory ten times a second. RDMA data counters are octets / 4, as the
InfiniBand specification counts them; the octets are those of the veth, seen from the switch.
"""

import contextlib
import fcntl
import socket
import struct
from pathlib import Path
from typing import NamedTuple

from holdfast.keeper.state import NodeRecord
from holdfast.kit.files import write_atomic

DEVICE, LANES = "emulated0", 16
SIOCGIFFLAGS = 0x8913  # netdevice(7)
IFF_UP, IFF_RUNNING = 0x1, 0x40


class Link(NamedTuple):
    """A node's link, in the node's own directions."""

    sent_bytes: int = 0
    sent_packets: int = 0
    received_bytes: int = 0
    received_packets: int = 0
    up: bool = False
    carrier_changes: int = 0


class Counters:
    """Reads the switch's ends of all links, writes each node's files where they changed."""

    def __init__(self) -> None:
        self._written: dict[tuple[int, str], str] = {}
        self._links: dict[str, Link] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def feed(self, nodes: list[NodeRecord]) -> None:
        traffic = _traffic()
        for node in nodes:
            if node.host_pid:
                link = self._link(node, traffic.get(node.switch_interface))
                if link is not None:
                    self._write(node, link)

    def _link(self, node: NodeRecord, numbers: list[int] | None) -> Link | None:
        """The link now, or None before it came up first: that is no flap."""
        up = numbers is not None and self._running(node.switch_interface)
        before = self._links.get(node.name)
        if before is None:
            if not up:
                return None
            before = Link(up=True)
        flips = before.carrier_changes + (up is not before.up)
        if numbers is None:
            link = before._replace(up=False, carrier_changes=flips)
        else:  # what the switch receives, the node has sent
            link = Link(numbers[0], numbers[1], numbers[8], numbers[9], up, flips)
        self._links[node.name] = link
        return link

    def _running(self, interface: str) -> bool:
        request = struct.pack("16sH14x", interface.encode(), 0)
        try:
            answer = fcntl.ioctl(self._socket, SIOCGIFFLAGS, request)
        except OSError:
            return False
        flags: int = struct.unpack("16sH14x", answer)[1]
        return flags & (IFF_UP | IFF_RUNNING) == IFF_UP | IFF_RUNNING

    def _write(self, node: NodeRecord, link: Link) -> None:
        root = Path(f"/proc/{node.host_pid}/root{node.folder}/scratch/sys/class")
        for name, text in files(node.interface, link).items():
            if self._written.get((node.host_pid, name)) == text:
                continue
            with contextlib.suppress(OSError):  # the node is not up yet, or no more
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(path, text.encode())  # as whole as a read of the real /sys
                self._written[(node.host_pid, name)] = text


def files(interface: str, link: Link) -> dict[str, str]:
    """Content by path below /sys/class. Pure."""
    port = f"infiniband/{DEVICE}/ports/1"
    net = f"net/{interface}"
    values: dict[str, object] = {
        f"{port}/counters/port_xmit_data": link.sent_bytes // 4,
        f"{port}/counters/port_rcv_data": link.received_bytes // 4,
        f"{port}/counters/port_xmit_packets": link.sent_packets,
        f"{port}/counters/port_rcv_packets": link.received_packets,
        f"{port}/counters/port_rcv_errors": 0,
        f"{port}/counters/symbol_error": 0,
        f"{port}/counters/link_downed": (link.carrier_changes + 1) // 2,
        f"{port}/hw_counters/out_of_sequence": 0,
        f"{port}/hw_counters/lifespan": 10,
        f"{port}/state": "4: ACTIVE" if link.up else "1: DOWN",
        f"{port}/phys_state": "5: LinkUp" if link.up else "3: Disabled",
        f"infiniband/{DEVICE}/device/current_link_width": LANES,
        f"{net}/carrier": int(link.up),
        f"{net}/carrier_changes": link.carrier_changes,
        f"{net}/operstate": "up" if link.up else "down",
        f"{net}/statistics/tx_bytes": link.sent_bytes,
        f"{net}/statistics/rx_bytes": link.received_bytes,
        f"{net}/statistics/tx_packets": link.sent_packets,
        f"{net}/statistics/rx_packets": link.received_packets,
        f"{net}/statistics/tx_errors": 0,
        f"{net}/statistics/rx_errors": 0,
    }
    return {name: f"{value}\n" for name, value in values.items()}


def _traffic() -> dict[str, list[int]]:
    """Numbers of /proc/net/dev by interface: eight received, eight sent (bytes, packets, …)."""
    lines = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
    parted = (line.partition(":") for line in lines)
    return {name.strip(): [int(part) for part in rest.split()] for name, _, rest in parted}
