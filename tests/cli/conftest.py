"""A folder to type `holdfast` in."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from shells import Shell, shell_in


@pytest.fixture
def shell(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shell]:
    warm = request.node.get_closest_marker("warm") is not None
    with shell_in(tmp_path, warm=warm) as made:
        yield made
