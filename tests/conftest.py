"""Fixtures for all tests."""

import asyncio

from hypothesis import settings

settings.register_profile("holdfast", deadline=None)  # machines are noisy: no test is timed
settings.load_profile("holdfast")


def pytest_configure() -> None:
    """Say that there is no event loop yet: pytest-asyncio else makes one that nobody closes."""
    asyncio.set_event_loop(None)
