"""A folder to type `holdfast` in."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from shells import Shell, shell_in


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with shell_in(tmp_path) as made:
        yield made
