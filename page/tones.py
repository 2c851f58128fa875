"""How grave a state is, in one word: for a colour, beside the state's own word. Pure."""

from collections.abc import Mapping

GOOD, BAD, WAITS, PLAIN, BUSY = "good", "bad", "waits", "plain", "busy"

TONES: Mapping[str, str] = {
    **dict.fromkeys(("Running", "Succeeded", "held"), GOOD),
    **dict.fromkeys(("Failed", "quarantined", "gone", "lost its driver"), BAD),
    **dict.fromkeys(("cut short", "maintenance", "suspect", "in test"), WAITS),
    **dict.fromkeys(("Stopped", "Suspended", "Pending"), WAITS),
    **dict.fromkeys(("free", "unknown", "ended"), PLAIN),
}
"""Of states of jobs and nodes; others are under way."""


def tone_of(state: str) -> str:
    """Of a state, in one of the words above."""
    return TONES.get(state, BUSY)
