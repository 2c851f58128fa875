"""What chaos does to the kubelet of one node, from outside: a file in the node's folder.

Written by `lab.chaos` and tests (`turn`), read by `agent` and `heart` before all that they do. It
outlives a kubelet, as a broken one stays broken when it is started again.
"""

import asyncio
from pathlib import Path

import msgspec

from holdfast.kit.files import write_atomic

LOOK_S = 0.05


class Knobs(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How the kubelet of a node is broken; as it stands, it is not."""

    frozen: bool = False
    """It does nothing at all: no lease, no status, no pods. What runs goes on."""
    drops_leases: bool = False
    drops_statuses: bool = False
    """What it would say of its pods is lost, until it is mended."""
    drops_pods: bool = False
    """It does not hear what is wanted of it."""
    lies: bool = False
    """It says that the node and its pods are well, whatever they are."""
    slow_s: float = 0.0
    """Before it does anything for a pod."""


class KnobsOf:
    """The knobs of the node with this folder."""

    def __init__(self, folder: Path) -> None:
        self._path = _path(folder)
        self._read = (0, 0)
        self._knobs = Knobs()

    def now(self) -> Knobs:
        """As they are turned now."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return Knobs()
        version = (found.st_mtime_ns, found.st_ino)
        if version != self._read:
            self._knobs = msgspec.json.decode(self._path.read_bytes(), type=Knobs)
            self._read = version
        return self._knobs

    async def thawed(self) -> Knobs:
        """The knobs, once the kubelet is not frozen."""
        while self.now().frozen:
            await asyncio.sleep(LOOK_S)
        return self.now()


def turn(folder: Path, knobs: Knobs) -> None:
    """Break the kubelet of the node with this folder like this; `Knobs()` mends it."""
    write_atomic(_path(folder), msgspec.json.encode(knobs))


def _path(folder: Path) -> Path:
    return folder / "knobs.json"
