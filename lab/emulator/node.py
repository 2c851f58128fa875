"""One emulated node from inside: makes its namespaces, its mounts and its link's address, and then
becomes the node's host.

Started by the factory, in the switch's namespaces. Says the pid of the node's init on descriptor
`SAYS`, and waits on `HEARS` until its link is there. Must not go on when the keeper went away.
"""

import os
import sys
from pathlib import Path

from holdfast.keeper.host import Config, Host, read_config
from holdfast.lab.emulator import gpus, namespaces

SAYS, HEARS = 3, 4
LIMITS = ("HOLDFAST_MEMORY", "HOLDFAST_SCRATCH")


def main() -> None:
    path, (memory_mib, scratch_mib, count) = Path(sys.argv[1]), map(int, sys.argv[2:5])
    namespaces.unshare(namespaces.NODE)
    child = os.fork()
    if child:
        os.write(SAYS, str(child).encode())
        os._exit(0)
    os.close(SAYS)
    os.setsid()
    if not os.read(HEARS, 1):
        os._exit(1)  # the keeper went away before our link was there
    os.close(HEARS)
    config = read_config(path)
    make_mounts(config, path.parent, memory_mib, scratch_mib)
    for gpu in range(count):
        gpus.tell(Path(config.environment["HOLDFAST_SCRATCH"]), gpu, **gpus.WELL)
    bring_up(config)
    Host(config, path.parent).run()


def make_mounts(config: Config, folder: Path, memory_mib: int, scratch_mib: int) -> None:
    """Private mounts: processes, shared memory, the node's memory and disk, names of its peers."""
    quiet = namespaces.MS_NODEV | namespaces.MS_NOSUID
    namespaces.mount("none", Path("/"), "", namespaces.MS_REC | namespaces.MS_PRIVATE)
    namespaces.mount("proc", Path("/proc"), "proc", quiet | namespaces.MS_NOEXEC)
    memory = Path(config.environment["HOLDFAST_MEMORY"])
    scratch = Path(config.environment["HOLDFAST_SCRATCH"])
    for target, size_mib in (
        (Path("/dev/shm"), memory_mib),
        (memory, memory_mib),
        (scratch, scratch_mib),
    ):
        options = f"size={size_mib}m,mode=1777"
        namespaces.mount("holdfast", target, "tmpfs", quiet, options)
    namespaces.mount(str(folder.parent / "hosts"), Path("/etc/hosts"), "", namespaces.MS_BIND)
    (scratch / "kmsg").touch()


def bring_up(config: Config) -> None:
    """Loopback, and the node's end of its link."""
    name = config.environment["HOLDFAST_IFNAME"]
    address = config.environment["HOLDFAST_NODE_ADDRESS"]
    namespaces.ip(["link set lo up", f"addr add {address}/15 dev {name}", f"link set {name} up"])


if __name__ == "__main__":
    main()
