"""What NVIDIA's XIDs mean and what may be done about each; the conditions that speak of them. Pure.

Read by the driver's detectors, which are told of a line by a daemon, by `daemon.signals`, which
tells of it as a condition of the Node, and by the driver's adapter, which reads that condition.
"""

from holdfast.protocol.faults import Origin, Weight

XIDS: dict[int, tuple[str, Weight, Origin | None]] = {
    13: ("graphics engine exception", Weight.REPORT, Origin.USER),
    31: ("memory page fault", Weight.REPORT, Origin.USER),
    43: ("a program was stopped for its own fault", Weight.REPORT, Origin.USER),
    45: ("cleared up after a program that ended", Weight.REPORT, None),
    48: ("double-bit ECC error", Weight.CONCLUSIVE, Origin.GPU),
    63: ("row remapping recorded", Weight.REPORT, Origin.GPU),
    64: ("row remapping failed", Weight.SUSPECT, Origin.GPU),
    74: ("NVLink error", Weight.SUSPECT, Origin.GPU),
    79: ("GPU has fallen off the bus", Weight.CONCLUSIVE, Origin.GPU),
    94: ("contained ECC error", Weight.RESTART, Origin.GPU),
    95: ("uncontained ECC error", Weight.CONCLUSIVE, Origin.GPU),
    119: ("GSP does not answer", Weight.CONCLUSIVE, Origin.GPU),
    120: ("GSP error", Weight.CONCLUSIVE, Origin.GPU),
    154: ("GPU recovery action changed", Weight.SUSPECT, Origin.GPU),
}
"""What each XID is, what may be done, and where it comes from: faults.md, row 29, after NVIDIA's
XID catalogue. 13, 31 and 43 are what a fault of a script leads to (43 was seen after an assertion
on an H100): CUDA refuses whatever that process asks for next, so it ends by itself, with its own
words. Nobody is restarted for it: the kernel speaks of every process of the machine, also of those
of other jobs and people.
"""
UNKNOWN = ("not in the table", Weight.REPORT, None)
"""Of any other XID."""

HARDWARE_FAULT = "holdfast.dev/HardwareFault"
"""Condition of a Node, ours: True where it is to be replaced without a test."""
XID_ERRORS = "XIDErrors"
"""Condition of a Node, as other problem detectors call it too: True makes it a suspect. We
put other words of the kernel's into it, too (`protocol.kernellines`); its reason says which."""
CONDITIONS = {Weight.CONCLUSIVE: HARDWARE_FAULT, Weight.SUSPECT: XID_ERRORS}
"""By what is to be done. Nothing is said of a node for a fault of the user's, or one of no weight.
"""
