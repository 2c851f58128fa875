"""Devices with fewer lanes of PCIe than they had, or than the same device of other nodes. Pure.

A NIC or GPU whose bus came up narrower after a reset or a reboot works, at half its rate or less,
and nothing counts an error. What a slot should have nobody knows: so a device is compared with what
it had under this driver, and with what most other nodes have under the same name. A report.
"""

from collections import Counter
from collections.abc import Iterator

from holdfast.driver.watch.detector import Context, Detector
from holdfast.driver.watch.model import Findings, evidence
from holdfast.protocol.faults import Finding, Kind, Weight
from holdfast.protocol.messages import Heartbeat

OTHERS = 3
"""Nodes that have the device, from which on most of them are a rule."""
MOST = 2 / 3
"""Of those: a cluster of two kinds of machines has no rule."""


class NarrowBuses(Detector):
    hears = ("nics", "gpus")

    def __init__(self) -> None:
        self._lanes: dict[str, dict[str, int]] = {}  # by node and device: as told last
        self._best: dict[str, dict[str, int]] = {}  # the most it had
        self._rule: dict[str, Counter[int]] = {}  # by device: how many nodes have so many
        self._told: dict[str, set[str]] = {}  # by node: devices
        self._changes = 0  # of all that is known
        self._judged: dict[str, int] = {}  # by node: after how many of them

    def heard(self, beat: Heartbeat, context: Context) -> Findings:
        node, lanes = beat.node, dict(_lanes(beat))
        if lanes != self._lanes.get(node, {}):
            self._count(node, -1)
            self._lanes[node] = lanes
            self._count(node, 1)
        if self._judged.get(node) == self._changes or not lanes:
            return ()
        self._judged[node] = self._changes
        narrow = dict(self._narrow(node))
        new = narrow.keys() - self._told.get(node, set())
        self._told[node] = set(narrow)
        return tuple(_finding(node, each, lanes[each], narrow[each]) for each in sorted(new))

    def _count(self, node: str, more: int) -> None:
        self._changes += 1
        for device, lanes in self._lanes.get(node, {}).items():
            self._rule.setdefault(device, Counter())[lanes] += more

    def _narrow(self, node: str) -> Iterator[tuple[str, tuple[int, str]]]:
        """Devices of the node, with how many lanes they should have, and who says so."""
        best = self._best.setdefault(node, {})
        for device, lanes in self._lanes[node].items():
            had = best[device] = max(lanes, best.get(device, lanes))
            usual, nodes = self._rule[device].most_common(1)[0]
            if lanes < had:
                yield device, (had, "before")
            elif lanes < usual and nodes >= max(OTHERS, MOST * self._rule[device].total()):
                yield device, (usual, "on most other nodes")

    def gone(self, node: str) -> None:
        self._count(node, -1)
        for known in (self._lanes, self._best, self._told, self._judged):
            known.pop(node, None)


def _lanes(beat: Heartbeat) -> Iterator[tuple[str, int]]:
    yield from ((each.name, each.lanes) for each in beat.nics if each.lanes)
    yield from ((f"GPU {each.index}", each.lanes) for each in beat.gpus if each.lanes)


def _finding(node: str, device: str, lanes: int, should: tuple[int, str]) -> Finding:
    most, says = should
    text = f"{device} of {node} has {lanes} lanes of PCIe, and {most} {says}"
    return Finding(
        kind=Kind.BUS_NARROW,
        weight=Weight.REPORT,
        node=node,
        summary=text,
        evidence=(evidence(f"daemon of {node}", text, lanes=lanes, should=most),),
    )
