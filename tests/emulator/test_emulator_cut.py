"""What one node sends to another can be lost while all else arrives, and that can be taken back."""

import os
import sys

import pytest

from holdfast.keeper.state import KeeperState, NodeRecord
from holdfast.lab.emulator.inside import cut_one_way, in_node, mend_one_way
from holdfast.lab.emulator.namespaces import Kind

pytestmark = pytest.mark.cluster

EACH_KIND = pytest.mark.parametrize(
    "kind", [Kind.ROOT, Kind.USER] if os.geteuid() == 0 else [Kind.USER], ids=str
)
HEARD = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.sendto(b'!', ({!r}, {}))"


def arrives(state: KeeperState, sender: NodeRecord, receiver: NodeRecord) -> bool:
    """Whether frames of `sender` come to `receiver`: by the count of packets for its address."""
    before = _received(state, receiver)
    for _ in range(3):
        _send(state, sender, receiver)
    return _received(state, receiver) - before >= 3


def _send(state: KeeperState, sender: NodeRecord, receiver: NodeRecord) -> None:
    """A datagram to a port that is closed: no answer but an ICMP, and nobody waits for that."""
    in_node(state, sender, sys.executable, "-c", HEARD.format(receiver.address, 9))


def _received(state: KeeperState, node: NodeRecord) -> int:
    """Datagrams to ports without a socket, which the kernel has counted."""
    lines = in_node(state, node, "cat", "/proc/net/snmp").splitlines()
    names, counts = (line.split() for line in lines if line.startswith("Udp: "))
    return int(counts[names.index("NoPorts")])


@EACH_KIND
def test_what_one_node_sends_to_another_is_lost_and_nothing_else(emulator) -> None:
    emulator.host(), emulator.host("node-2")
    state, one, two = emulator.state, emulator.node("node-1"), emulator.node("node-2")
    assert arrives(state, one, two)
    cut_one_way(state, one, two)
    assert not arrives(state, one, two)
    assert arrives(state, two, one)
    mend_one_way(state, one, two)
    assert arrives(state, one, two)
