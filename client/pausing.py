"""Waits between two looks at a driver."""

import threading


def pause(seconds: float) -> None:
    """Ctrl-C ends it at once."""
    threading.Event().wait(seconds)
