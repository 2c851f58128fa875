"""What the kernel says of a node in its log, beside NVIDIA's XIDs: which lines, what they mean, and
what may be done about each. Pure.

Read by the daemon and by `daemon.signals`, which find the lines, and by the driver's detector,
which weighs them. Patterns follow the kernel's and the drivers' own words. A suspect is tested
before anything else is done to it; what a healthy node says too is a report. What weighs more has
more than 15 characters, which is all that a program can call itself: the kernel names those that it
kills, and they must not speak for it.
"""

import re
from typing import NamedTuple

from holdfast.protocol.faults import Origin, Weight
from holdfast.protocol.xids import UNKNOWN, XIDS


class Meaning(NamedTuple):
    """What a line means, what may be done, and where it comes from; None: that does not tell."""

    text: str
    weight: Weight
    origin: Origin | None = Origin.HOST


XID = "xid"
"""The rule of a line with an XID, whose number says what it means."""

KILLED = r"(?i:out of memory): Kill(?:ed)? process (?P<pid>\d{1,10})\b"
"""How the kernel tells which process it killed for memory."""

RULES: dict[str, tuple[str, Meaning]] = {
    "gpu-lost": (
        r"NVRM: .{0,120}\bfallen off the bus\b",
        Meaning("GPU has fallen off the bus", Weight.CONCLUSIVE, Origin.GPU),
    ),
    "gpu-not-started": (
        r"NVRM: .{0,120}\bRmInitAdapter failed\b",
        Meaning("a GPU does not start", Weight.SUSPECT, Origin.GPU),
    ),
    "nvswitch-fatal": (
        r"SXid \([^)]*\): \d{1,9}, Fatal\b",
        Meaning("fatal error of an NVSwitch", Weight.SUSPECT, Origin.GPU),
    ),
    "nvswitch": (
        r"SXid \([^)]*\): \d{1,9}, Non-fatal\b",
        Meaning("error of an NVSwitch", Weight.REPORT, Origin.GPU),
    ),
    "memory-uncorrected": (
        r"EDAC \S{1,20}: \d{1,9} UE .{0,80}\bon "
        r"|Memory failure: \S{1,40}: (Killing|recovery action)"
        r"|\[Hardware Error\]: event severity: (fatal|recoverable)",
        Meaning("memory error that was not corrected", Weight.SUSPECT),
    ),
    "memory-corrected": (
        r"EDAC \S{1,20}: \d{1,9} CE |\[Hardware Error\]: event severity: corrected"
        r"|mce: \[Hardware Error\]",
        Meaning("memory error that was corrected", Weight.REPORT),
    ),
    "pcie-fatal": (
        r"PCIe Bus Error: severity=Uncorrect(ed|able) \(Fatal\)",
        Meaning("fatal error of PCIe", Weight.SUSPECT),
    ),
    "pcie": (
        r"PCIe Bus Error: severity=|AER: (Multiple )?(Un)?[Cc]orrect(ed|able) ",
        Meaning("error of PCIe", Weight.REPORT),
    ),
    "mlx5-dead": (
        r"mlx5_core \S.{0,120}(device's health compromised|Fatal error \d+ detected"
        r"|handling bad device here|FW is unable to respond)",
        Meaning("a NIC's firmware does not answer", Weight.SUSPECT, Origin.NETWORK),
    ),
    "mlx5": (
        r"mlx5_core \S.{0,120}(Health issue observed|[Hh]igh temperature|insufficient power"
        r"|Will cause a leak of a command resource|Port module event\[error\])",
        Meaning("a NIC complains", Weight.REPORT, Origin.NETWORK),
    ),
    "nvme-dead": (
        r"nvme \S{1,20}: (Disabling device after reset failure|Removing after probe failure"
        r"|Device not ready; aborting)",
        Meaning("an NVMe disk is gone", Weight.SUSPECT, Origin.STORAGE),
    ),
    "disk": (
        r"nvme \S{1,20}: (controller is down; will reset|I/O .{0,60}timeout)"
        r"|\b(critical (medium|target)|I/O) error, dev \S{1,30}, sector \d+",
        Meaning("a disk answers with errors", Weight.REPORT, Origin.STORAGE),
    ),
    "file-system": (
        r"EXT4-fs error|XFS \([^)]*\): .{0,40}([Cc]orruption|[Ss]hut(ting)? ?down|I/O error)"
        r"|[Rr]emounting filesystem read-only|BTRFS error",
        Meaning("a file system fails", Weight.REPORT, Origin.STORAGE),
    ),
    "nfs": (
        r"nfs: server \S{1,255} not responding",
        Meaning("a file server does not answer", Weight.REPORT, Origin.STORAGE),
    ),
    "oom-kill": (
        KILLED,
        Meaning("a process was killed for want of memory", Weight.REPORT),
    ),
    "hung-task": (
        r"INFO: task \S.{0,60} blocked for more than \d+ seconds",
        Meaning("a process has waited in the kernel for long", Weight.REPORT, None),
    ),
    "lockup": (
        r"BUG: (soft|workqueue) lockup|[Hh]ard LOCKUP|rcu: INFO: \w+ (self-)?detected",
        Meaning("a CPU was stuck in the kernel", Weight.REPORT),
    ),
    "kernel-bug": (
        r"^(BUG: unable to handle|kernel BUG at|Oops: |general protection fault)"
        r"|Kernel panic - not syncing",
        Meaning("the kernel met a defect", Weight.REPORT),
    ),
    "cpu-hot": (
        r"CPU\d+: .{0,20}temperature (is )?above threshold",
        Meaning("a CPU is too hot", Weight.REPORT),
    ),
}
"""By name; of several that match a line the first counts. Learned from the kernel's health.c of
mlx5, edac_mc.c, aer.c, nvme/host, oom_kill.c, hung_task.c and NVIDIA's open modules."""

OOM_KILL = "oom-kill"
"""The rule of a process that the kernel killed for memory; whose that was the line does not say."""
OOM_KILL_OWN, OOM_KILL_OTHER = "oom-kill-own", "oom-kill-other"
FURTHER = {
    OOM_KILL_OWN: Meaning("a rank was killed for want of memory", Weight.REPORT, Origin.USER),
    OOM_KILL_OTHER: Meaning(
        "another process on the node, none of a job, was killed for want of memory",
        *(Weight.REPORT, None),
    ),
}
"""What a daemon makes of a line that knows more than the line says: no pattern finds these."""

_EACH = tuple((name, re.compile(pattern)) for name, (pattern, _) in RULES.items())


def rule_of(text: str) -> str | None:
    """The name of the rule for what the kernel says; None where it is nothing to us."""
    return next((name for name, pattern in _EACH if pattern.search(text)), None)


def meaning(rule: str, xid: int | None) -> Meaning:
    """Of a line that was found; what is not known here, from a newer daemon, is a report."""
    if xid is not None:
        return Meaning(*XIDS.get(xid, UNKNOWN))
    if rule in FURTHER:
        return FURTHER[rule]
    return RULES[rule][1] if rule in RULES else Meaning(*UNKNOWN)
