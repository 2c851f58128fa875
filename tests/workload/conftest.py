"""Runs the rank programs once for all tests that look at their results."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for `programs` and `assembled`, which the ranks import as well


def launch(program: str, out: Path, layouts: tuple[str, ...], **more: str) -> Path:
    command = [sys.executable, str(HERE / "launch.py"), program, str(out), *layouts]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=500, check=False, env=os.environ | more
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="session")
def agreed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of `programs.agree` on every layout."""
    from programs import LAYOUTS

    return launch("agree", tmp_path_factory.mktemp("agree"), LAYOUTS)


@pytest.fixture(scope="session")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of `programs.wire` where one axis alone is parallel."""
    return launch("wire", tmp_path_factory.mktemp("wire"), ("2,1,1", "3,1,1", "1,1,3"))
