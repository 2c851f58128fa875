"""The kernel log's faults: lines with an XID, and those of `protocol.kernellines`.

Called by the daemon's loop ten times a second. Must not judge a hit: the driver has the tables.
"""

import re

from msgspec.structs import replace

from holdfast.daemon.samplers.starved import Whose
from holdfast.daemon.samplers.tail import KernelMessages, Tail
from holdfast.protocol import kernellines
from holdfast.protocol.messages import LogHit

_XID = re.compile(r"NVRM: Xid \((?P<device>[^)]*)\): (?P<xid>\d{1,9})\b")
"""NVIDIA's driver: `NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.`"""
LINE_CHARACTERS = 500
TOLD_A_WINDOW, WINDOW_S = 8, 60.0
"""Lines of one rule or XID that are told: a PCIe port that corrects errors says so a thousand times
a second, and must not push the line that matters out of the heartbeat."""

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
    """Faults in the node's kernel log: its feed where it has one, else the machine's."""

    def __init__(self, source: Tail | KernelMessages, whose: Whose | None = None) -> None:
        self._source, self._whose = source, whose
        self._began_s = 0.0
        self._told: dict[tuple[str, int | None], int] = {}

    def hits(self, now: float) -> list[LogHit]:
        """New ones of the kernel's own; what a program wrote there is none."""
        if now - self._began_s >= WINDOW_S:
            self._began_s, self._told = now, {}
        if self._whose is not None:
            self._whose.look()
        said = (self._hit(line) for line in self._source.lines())
        return [hit for hit in said if hit is not None and self._is_told(hit)]

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Why it cannot be read, and what was left out in this minute."""
        left = ((key, count - TOLD_A_WINDOW) for key, count in self._told.items())
        more = (
            f"kernel log: {count} more of {rule if xid is None else f'XID {xid}'} within a minute"
            for (rule, xid), count in left
            if count > 0
        )
        return (*self._source.unreadable, *more)

    def _hit(self, line: str) -> LogHit | None:
        hit = _hit(line)
        if self._whose is None:
            return hit
        self._whose.hear(line)
        if hit is None or hit.rule != kernellines.OOM_KILL:
            return hit
        return replace(hit, rule=self._whose.rule(line))

    def _is_told(self, hit: LogHit) -> bool:
        key = hit.rule, hit.xid
        self._told[key] = self._told.get(key, 0) + 1
        return self._told[key] <= TOLD_A_WINDOW


def _hit(line: str) -> LogHit | None:
    text = text_of_kernel(line)
    if text is None:
        return None
    shown = line[:LINE_CHARACTERS]
    if (match := _XID.search(text)) is not None:
        return LogHit(source="kernel", rule=kernellines.XID, line=shown, xid=int(match["xid"]))
    rule = kernellines.rule_of(text)
    return None if rule is None else LogHit(source="kernel", rule=rule, line=shown)
