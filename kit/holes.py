"""Where moments that were noted at a steady pace have a hole. Pure."""

from collections.abc import Sequence
from itertools import pairwise

LONGER = 4.0
"""Times the usual distance: to leave out one or two is no hole."""


def is_hole(before_s: float, after_s: float, every_s: float) -> bool:
    """Whether too long passed from one moment to the next; `every_s`: how often they are noted."""
    return after_s - before_s > LONGER * every_s


def holes(at_s: Sequence[float], every_s: float) -> list[tuple[float, float]]:
    """From when to when, in order."""
    return [each for each in pairwise(at_s) if is_hole(*each, every_s)]
