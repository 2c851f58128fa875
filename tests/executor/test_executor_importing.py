"""What a launcher imports ahead of the ranks, and what a failed import leaves in it."""

import sys
from pathlib import Path

import pytest

from holdfast.executor.launcher.importing import Importer


@pytest.fixture
def importer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Importer:
    """It takes what is in `tmp_path` for installed."""
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "whole"]:
        monkeypatch.delitem(sys.modules, name)
    made = Importer()
    made._roots.append(tmp_path)
    return made


@pytest.mark.parametrize(
    ("text", "half"),
    [("from whole import part", ""), ("from whole import part\n1 / 0", "whole"), ("1 / 0", "")],
    ids=["a package", "one that fails half-way", "one that fails at once"],
)
def test_a_package_that_failed_half_way_is_remembered(
    importer: Importer, tmp_path: Path, text: str, half: str
) -> None:
    package = tmp_path / "whole"
    package.mkdir()
    (package / "__init__.py").write_text(text)
    (package / "part.py").touch()
    importer.load("whole")
    assert importer.half == half
    for name in ("whole", "whole.part"):
        sys.modules.pop(name, None)
