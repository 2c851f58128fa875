"""Fixtures for all tests."""

import asyncio
import signal

from hypothesis import settings

settings.register_profile("holdfast", deadline=None)  # machines are noisy: no test is timed
settings.load_profile("holdfast")


def pytest_configure() -> None:
    """Begin as from a terminal, however the tests were started.

    There is no event loop yet (pytest-asyncio else makes one that nobody closes), and SIGINT is
    heard (a shell has what it starts in the background ignore it).
    """
    asyncio.set_event_loop(None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
