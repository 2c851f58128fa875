"""What a command starts, by its words."""

import pytest

from holdfast.protocol.commands import starts_python


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py"),
        ("/opt/venv/bin/python3", "-u", "train.py", "--lr", "1"),
        ("python3.12", "-m", "train"),
        ("python", "-c", "print(1)"),
    ],
)
def test_python_that_is_started_as_such(command: tuple[str, ...]) -> None:
    assert starts_python(command)


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("bash", "-c", "python train.py"),
        ("./train.py",),
        ("python",),
        ("python", "-X", "dev", "train.py"),
        ("python", "folder"),
        ("pythonic", "train.py"),
        ("env", "python", "train.py"),
    ],
)
def test_anything_else(command: tuple[str, ...]) -> None:
    assert not starts_python(command)
