"""NICs and RDMA ports as rates, from a /sys tree: the node's own, else the machine's.

Called by the daemon's loop once a heartbeat. Counters: Documentation/ABI/stable/sysfs-class-net and
sysfs-class-infiniband of the Linux kernel; `port_*_data` count four octets each. A port's
`hw_counters` are cached for `lifespan` (10 ms by default), far below our period.
"""

from collections.abc import Callable
from pathlib import Path

from holdfast.daemon.samplers.readings import Readings, sendable
from holdfast.protocol.messages import NicRates

WRAP = 1 << 32
"""Some counters (mlx5 Q counters, port_*_errors) have 32 bits and start again at zero."""
MOST_OVER = WRAP >> 8
"""What one grows by between two looks at most: more over its wrap is a reset."""
DOWNED = "link_downed"
"""How often a port went down: it has no `carrier_changes`."""


class Nics:
    """All NICs and RDMA ports below `root` (it has `class/net`, `class/infiniband`)."""

    def __init__(self, root: Path, interface: str = "") -> None:
        self._root = root
        self._interface = interface
        self._last: dict[str, tuple[float, dict[str, int]]] = {}
        self._up: dict[str, bool] = {}
        self._links: dict[Path, bool] = {}
        self._files = Readings("nics")

    def sample(self, now: float) -> tuple[NicRates, ...]:
        """Rates since the sample before; zero at the first."""
        return tuple(
            [self._net(folder, now) for folder in self._net_folders()]
            + [self._port(folder, now) for folder in self._ports()]
        )

    @property
    def unreadable(self) -> tuple[str, ...]:
        return self._files.unreadable_now

    def went_down(self) -> bool:
        """Whether a link that was up is down now; cheap, for between heartbeats."""
        before = self._up
        self._up = {folder.name: self._carries(folder) for folder in self._net_folders()}
        return any(before.get(name, False) and not up for name, up in self._up.items())

    def _net_folders(self) -> list[Path]:
        folders = sorted((self._root / "class" / "net").glob("*"))
        wanted = {self._interface} if self._interface else {folder.name for folder in folders}
        return [f for f in folders if f.name != "lo" and f.name in wanted and f.is_dir()]

    def _ports(self) -> list[Path]:
        return sorted((self._root / "class" / "infiniband").glob("*/ports/*"))

    def _net(self, folder: Path, now: float) -> NicRates:
        counts = {
            name: self._files.number(folder / "statistics" / name)
            for name in ("tx_bytes", "rx_bytes", "tx_errors", "rx_errors")
        }
        rates = self._rates(folder.name, counts, now)
        return NicRates(
            name=sendable(folder.name),
            up=self._carries(folder),
            carrier_changes=self._files.number(folder / "carrier_changes") or 0,
            sent_bytes_per_s=rates["tx_bytes"],
            received_bytes_per_s=rates["rx_bytes"],
            errors_per_s=rates["tx_errors"] + rates["rx_errors"],
            lanes=self._lanes(folder),
        )

    def _port(self, folder: Path, now: float) -> NicRates:
        name = f"{folder.parent.parent.name}/{folder.name}"
        files = [*(folder / "counters").glob("*"), *(folder / "hw_counters").glob("*")]
        counts = {file.name: self._files.number(file) for file in files if _counts(file.name)}
        rates = self._rates(name, counts, now)
        data = 4 * rates.pop("port_xmit_data", 0.0), 4 * rates.pop("port_rcv_data", 0.0)
        rates.pop(DOWNED, None)
        return NicRates(
            name=sendable(name),
            up=self._link(folder / "state", lambda text: "ACTIVE" in text),
            sent_bytes_per_s=data[0],
            received_bytes_per_s=data[1],
            errors_per_s=sum(rates.values()),
            downs=counts.get(DOWNED),
            lanes=self._lanes(folder.parents[1]),
        )

    def _lanes(self, device: Path) -> int | None:
        """Of its bus, now; 0 is said of a device that is asleep, or has none."""
        return self._files.number(device / "device" / "current_link_width") or None

    def _carries(self, folder: Path) -> bool:
        return self._link(folder / "carrier", lambda text: text == "1")

    def _link(self, file: Path, up: Callable[[str], bool]) -> bool:
        """Whether the link is up; as before where that cannot be read, which is not down."""
        if (text := self._files.text(file)) is not None:
            self._links[file] = up(text)
        return self._links.get(file, True)

    def _rates(self, name: str, counts: dict[str, int | None], now: float) -> dict[str, float]:
        known = {key: count for key, count in counts.items() if count is not None}
        before_s, before = self._last.get(name, (now, known))
        self._last[name] = (now, known)
        took_s = now - before_s
        return {
            key: grown(before.get(key, count), count) / took_s
            if took_s > 0 and (count := known.get(key)) is not None
            else 0.0
            for key in counts
        }


def grown(before: int, after: int) -> int:
    """How far a counter went from `before` to `after`. One that fell has wrapped where it then is a
    little further; else it was reset, and how far it had gone until then is not known.
    """
    if after >= before:
        return after - before
    over = after + WRAP - before
    return over if 0 < over <= MOST_OVER else 0


def _counts(name: str) -> bool:
    return name in ("port_xmit_data", "port_rcv_data") or "err" in name or name == DOWNED
