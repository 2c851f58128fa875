"""Kinds of spans: what a rank did from a moment to another. Pure.

Numbered by their place in a span ring; written out by name everywhere else.
"""

from typing import Final

STEP, FORWARD, BACKWARD, COLLECTIVE, P2P, OPTIMIZER, DATA, SAVE, LOAD, PAUSE, PHASE = KINDS = (
    "step",
    "forward",
    "backward",
    "collective",
    "p2p",
    "optimizer",
    "data",
    "save",
    "load",
    "pause",
    "phase",
)
"""`phase`: one that the script named itself, by a word that is none of the others."""

OF_PHASES: Final = {"checkpoint": SAVE}
"""Kinds of phases with other names than their own; see `kind_of_phase`."""


def kind_of_phase(name: str) -> str:
    """The kind of what `telemetry.phase(name)` times."""
    return OF_PHASES.get(name, name if name in KINDS else PHASE)
