"""What NVIDIA's XIDs mean and what may be done about each; the conditions that speak of them. Pure.

Read by the driver's detectors, which are told of a line by a daemon, by `daemon.signals`, which
tells of it as a condition of the Node, and by the driver's adapter, which reads that condition.
"""

from holdfast.protocol.faults import Blame, Weight

XIDS: dict[int, tuple[str, Weight, Blame]] = {
    13: ("graphics engine exception", Weight.RESTART, Blame.USER),
    31: ("memory page fault", Weight.RESTART, Blame.USER),
    48: ("double-bit ECC error", Weight.CONCLUSIVE, Blame.INFRASTRUCTURE),
    63: ("row remapping recorded", Weight.REPORT, Blame.INFRASTRUCTURE),
    64: ("row remapping failed", Weight.SUSPECT, Blame.INFRASTRUCTURE),
    74: ("NVLink error", Weight.SUSPECT, Blame.INFRASTRUCTURE),
    79: ("GPU has fallen off the bus", Weight.CONCLUSIVE, Blame.INFRASTRUCTURE),
    94: ("contained ECC error", Weight.RESTART, Blame.INFRASTRUCTURE),
    95: ("uncontained ECC error", Weight.CONCLUSIVE, Blame.INFRASTRUCTURE),
    119: ("GSP does not answer", Weight.CONCLUSIVE, Blame.INFRASTRUCTURE),
    120: ("GSP error", Weight.CONCLUSIVE, Blame.INFRASTRUCTURE),
    154: ("GPU recovery action changed", Weight.SUSPECT, Blame.INFRASTRUCTURE),
}
"""What each XID is and what may be done: faults.md, row 29, after NVIDIA's XID catalogue."""
UNKNOWN = ("not in the table", Weight.REPORT, Blame.UNKNOWN)
"""Of any other XID."""

HARDWARE_FAULT = "holdfast.dev/HardwareFault"
"""Condition of a Node, ours: True where it is to be replaced without a test."""
XID_ERRORS = "XIDErrors"
"""Condition of a Node, as other problem detectors call it too: True makes it a suspect. We
put other words of the kernel's into it, too (`protocol.kernellines`); its reason says which."""
CONDITIONS = {Weight.CONCLUSIVE: HARDWARE_FAULT, Weight.SUSPECT: XID_ERRORS}
"""By what is to be done. Nothing is said of a node for a fault of the user's, or one of no weight.
"""
