"""Which nodes are present, judged by their leases alone. Pure: time is what the caller counts.

Called by the keeper. A lease ages only by time in which the keeper itself ran: after a pause of
this machine no node is accused for what the keeper could not hear.
"""

from typing import NamedTuple

from holdfast.protocol.lease import ABSENT_AFTER_S, CUT_OFF_AFTER_S

LONGEST_TICK_S = 0.3
"""More than this between two ticks means that the keeper itself stood still."""


class Change(NamedTuple):
    """A node came or went."""

    node: str
    present: bool
    why: str


class _Lease:
    def __init__(self, left_s: float) -> None:
        self.left_s = left_s
        self.present: bool | None = None  # None: nothing is known yet
        self.incarnation = ""
        self.host_ended = False


class Leases:
    """The leases of all nodes. A node is said absent once its lease is over, never before."""

    def __init__(self) -> None:
        self._leases: dict[str, _Lease] = {}

    def expect(self, node: str, *, within_s: float) -> None:
        """Start to wait for a node; without a renewal within `within_s` it is absent."""
        self._leases[node] = _Lease(within_s)

    def renewed(self, node: str, incarnation: str) -> Change | None:
        """A renewal came: the change that it makes, if any. Unknown nodes are ignored."""
        lease = self._leases.get(node)
        if lease is None:
            return None
        was, lease.present, lease.left_s = lease.present, True, CUT_OFF_AFTER_S
        lease.incarnation, lease.host_ended = incarnation, False
        return None if was else Change(node, True, "its lease is renewed")

    def host_ended(self, node: str) -> None:
        """It renews its lease no more: no link of it comes back."""
        lease = self._leases.get(node)
        if lease is not None and lease.present and not lease.host_ended:
            lease.host_ended = True
            lease.left_s -= CUT_OFF_AFTER_S - ABSENT_AFTER_S

    def passed(self, elapsed_s: float) -> list[Change]:
        """Time went by: the nodes whose leases are over by it."""
        changes = []
        for node, lease in self._leases.items():
            lease.left_s -= min(elapsed_s, LONGEST_TICK_S)
            if lease.left_s <= 0 and lease.present is not False:
                changes.append(Change(node, False, self._why(lease)))
                lease.present = False
        return changes

    def present(self, node: str) -> bool | None:
        """True or False, or None while nothing is known yet."""
        lease = self._leases.get(node)
        return lease.present if lease else None

    def incarnation(self, node: str) -> str:
        """Of the host that renewed last, "" where none did."""
        lease = self._leases.get(node)
        return lease.incarnation if lease else ""

    def _why(self, lease: _Lease) -> str:
        if lease.present is None:
            return "its host has not come up"
        if lease.host_ended:
            return f"its host has ended, and its lease was not renewed for {ABSENT_AFTER_S:g} s"
        return f"its lease was not renewed for {CUT_OFF_AFTER_S:g} s"
