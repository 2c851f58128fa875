"""The note of an Event, as long as an API server takes it. Pure. Used by `events` and `marks`."""

MAX_NOTE_BYTES = 1_024
"""As the API server counts it."""


def short(note: str) -> str:
    """Its beginning, where it is too long: what to do about it comes first."""
    return note.encode()[:MAX_NOTE_BYTES].decode(errors="ignore")
