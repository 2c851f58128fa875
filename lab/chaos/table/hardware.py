"""Faults 15, 17, 18, 20, 21, 26 to 29 and 31: what a machine lacks, or says of itself."""

from msgspec.structs import replace

from holdfast.lab.chaos.injectors import hardware, host, loss
from holdfast.lab.chaos.scenario import Expected, Scenario, Shape
from holdfast.lab.chaos.scripts import BUGGY
from holdfast.lab.chaos.table.expected import (
    BROKEN,
    OF_HARDWARE,
    OF_LINK,
    SENDS_MUCH,
    TOLD,
    UNSEEN,
)

_says, _gpu = hardware.kernel_says, hardware.gpu_is
_XID = "NVRM: Xid (PCI:0000:3b:00): {}, pid=4242, name=python, {}"
_FAULT_TOLD = replace(TOLD, reports="kernel-fault")
_GPU, _FOUR = Shape(gpus=1), Shape(nodes=4)

ROWS: tuple[Scenario, ...] = (
    Scenario(
        15,
        "packets-lost",
        "a node loses 2 % of its packets, each way",
        loss.packets_lost(0.02),
        OF_LINK,
        needs_links=True,
        shape=_FOUR,
        spec=SENDS_MUCH,
    ),
    Scenario(
        17,
        "link-flaps",
        "the carrier of a node's link is gone for less than half a second, once",
        hardware.link_flaps(1),
        replace(TOLD, reports="link-down"),
        needs_links=True,
    ),
    Scenario(
        17,
        "link-flaps-twice",
        "the carrier of a node's link is gone for less than half a second, twice in five minutes",
        hardware.link_flaps(2),
        Expected(blame=("infrastructure",), kind="link-down", may_evict=True, most_steps_lost=10),
        needs_links=True,
        longer=3,
    ),
    Scenario(
        17,
        "link-flaps-long",
        "the carrier of a node's link is gone for three seconds, once",
        hardware.link_flaps(1, hardware.LONG_S),
        replace(TOLD, reports="link-down"),
        needs_links=True,
        longer=2,
    ),
    Scenario(
        18,
        "errors-counted",
        "a NIC counts errors, and nothing else is wrong",
        hardware.errors_counted,
        replace(TOLD, reports="counters"),
        needs_links=True,
    ),
    Scenario(
        20,
        "bus-narrow",
        "a NIC has half of its lanes of PCIe, as after a reset",
        hardware.bus_narrow,
        replace(TOLD, reports="bus-narrow"),
        needs_links=True,
    ),
    Scenario(
        20,
        "pcie-errors",
        "the kernel of a node corrects errors of PCIe",
        _says("pcieport 0000:17:01.0: AER: Corrected error received: 0000:3b:00.0"),
        _FAULT_TOLD,
        needs_links=True,
    ),
    Scenario(
        21,
        "disk-nearly-full",
        "somebody else fills the disk of a node, but for a little",
        host.disk_nearly_full,
        replace(TOLD, reports="disk-full"),
        needs_links=True,
    ),
    Scenario(
        26,
        "rank-out-of-memory",
        "a rank hoards memory until the kernel kills it",
        host.out_of_memory,
        Expected(names_rank=True, kind="out-of-memory", blame=("user", "unknown")),
        script=BUGGY,
        needs_links=True,
    ),
    Scenario(
        27,
        "processors-overloaded",
        "a loop on each core of the machine computes beside the ranks for 20 s",
        host.neighbours(20.0),
        UNSEEN,
        longer=3,
    ),
    Scenario(
        28,
        "shared-memory-full",
        "somebody else fills /dev/shm of a node",
        host.shared_memory_full,
        UNSEEN,
        needs_links=True,
    ),
    Scenario(
        29,
        "xid-79",
        "a GPU falls off the bus, as its XID says",
        _says(_XID.format(79, "GPU has fallen off the bus.")),
        BROKEN,
        needs_links=True,
    ),
    Scenario(
        29,
        "xid-94",
        "a GPU contains a memory error, as its XID says",
        _says(_XID.format(94, "Contained: SM (0x1). RST: No, D-RST: No")),
        OF_HARDWARE,
        needs_links=True,
    ),
    Scenario(
        29,
        "xid-13",
        "a program of the user's reads what is not its own, as an XID says",
        _says(_XID.format(13, "Graphics Exception: ESR 0x504648=0x1000e")),
        _FAULT_TOLD,
        needs_links=True,
    ),
    Scenario(
        29,
        "xid-63",
        "a GPU remaps a row of its memory, as its XID says",
        _says(_XID.format(63, "Row Remapper: New row (0x00000000) marked for remapping")),
        _FAULT_TOLD,
        needs_links=True,
    ),
    Scenario(
        29,
        "gpu-lost",
        "the driver of a GPU has lost it",
        _gpu(lost=1),
        BROKEN,
        needs_links=True,
        shape=_GPU,
    ),
    Scenario(
        29,
        "gpu-to-be-reset",
        "the driver of a GPU says that it is to be reset",
        _gpu(recovery="reset"),
        replace(OF_HARDWARE, may_evict=True),
        needs_links=True,
        shape=_GPU,
        longer=3,
    ),
    Scenario(
        31,
        "gpu-hot",
        "a GPU is slowed by heat",
        _gpu(celsius=93, slowed_by_heat=1),
        _FAULT_TOLD,
        needs_links=True,
        shape=_GPU,
        longer=5,
    ),
)
