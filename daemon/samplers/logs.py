"""The kernel log's faults.

Called by the daemon's loop ten times a second. Must not judge a hit: the driver has the tables.
"""

import re

from holdfast.daemon.samplers.tail import KernelMessages, Tail
from holdfast.protocol.messages import LogHit

XID = re.compile(r"NVRM: Xid \((?P<device>[^)]*)\): (?P<xid>\d{1,9})\b")
"""NVIDIA's driver: `NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.`"""
LINE_CHARACTERS = 500


RECORD = re.compile(r"(?P<priority>[0-9]{1,9}),[0-9]+,[0-9]+,[^;]*;")
"""Before the text of a record of /dev/kmsg; Documentation/ABI/testing/dev-kmsg."""
FACILITY_BITS = 3
"""A record's priority is its level in so many bits, above them the facility: 0 is the kernel, and
whatever a program writes there gets 1 (user) or more."""


def text_of_kernel(line: str) -> str | None:
    """What the kernel says in a line of its log; None for what a program wrote there.

    A feed without such heads, as of an emulated node or a file, is all the kernel's.
    """
    record = RECORD.match(line)
    if record is None:
        return line
    return line[record.end() :] if int(record["priority"]) >> FACILITY_BITS == 0 else None


class KernelLog:
    """XIDs in the node's kernel log: its feed where it has one, else the machine's."""

    def __init__(self, source: Tail | KernelMessages) -> None:
        self._source = source

    def hits(self) -> list[LogHit]:
        return [
            LogHit(source="kernel", rule="xid", line=line[:LINE_CHARACTERS], xid=int(match["xid"]))
            for line in self._source.lines()
            if (text := text_of_kernel(line)) is not None
            and (match := XID.search(text)) is not None
        ]
