"""Fixtures for the driver's tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.driver.adapters.journal import SqlJournal
from holdfast.driver.adapters.journal_sqlite import open_sqlite


@pytest.fixture
def open_journal(tmp_path: Path) -> Iterator[Callable[[str], SqlJournal]]:
    opened: list[SqlJournal] = []

    def open_named(name: str = "journal") -> SqlJournal:
        opened.append(open_sqlite(tmp_path / f"{name}.sqlite", reserve_bytes=1 << 16))
        return opened[-1]

    yield open_named
    for each in opened:
        each.close()
