"""Fixtures for all tests."""

import asyncio


def pytest_configure() -> None:
    """Say that there is no event loop yet: pytest-asyncio else makes one that nobody closes."""
    asyncio.set_event_loop(None)
