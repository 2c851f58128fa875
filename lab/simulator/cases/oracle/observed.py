"""What the oracle sees of a fault: no more than a driver is told. Pure data."""

import msgspec

from holdfast.lab.simulator.cases.trouble import Manner


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """One fault. Words count only as the same as others', or as a device's."""

    manner: Manner
    node: str | None
    place: int | None  # in the rank table
    nodes: tuple[str, ...]  # that the job ran on
    step: int
    gap_s: float  # of training before it, in this attempt
    at_start: bool
    device: bool  # its words are those of a device that failed
    version: int


History = tuple[Observed, ...]
