"""A module that can never be run is refused before anything starts; what may be there is not."""

from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.cli.run.findable import why_not
from holdfast.protocol import exitcodes

pytestmark = pytest.mark.warm


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package, and one that adds another folder to its own search path."""
    for folder in ("plain", "grown", "elsewhere", "runnable"):
        (tmp_path / folder).mkdir()
    (tmp_path / "plain" / "__init__.py").write_text("raise SystemExit('it was imported')")
    (tmp_path / "plain" / "train.py").touch()
    grow = f"print('a greeting')\n__path__.append({str(tmp_path / 'elsewhere')!r})\n"
    (tmp_path / "grown" / "__init__.py").write_text(grow)
    (tmp_path / "elsewhere" / "train.py").touch()
    (tmp_path / "runnable" / "__main__.py").touch()
    (tmp_path / "script.py").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["plain.train", "grown.train", "runnable", "json.tool", "script"])
@pytest.mark.usefixtures("here")
def test_what_is_there_is_not_refused_and_its_packages_are_not_run(name: str) -> None:
    assert why_not(name) == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", "there is no module 'nowhere'."),
        ("grown.nowhere", "there is no module 'grown.nowhere'."),
        ("script.nowhere", "'script' is not a package: there is no 'script.nowhere'."),
        ("grown", "'grown' is a package without a __main__: it cannot be run."),
    ],
)
@pytest.mark.usefixtures("here")
def test_what_cannot_be_run_is_a_sentence(name: str, said: str) -> None:
    assert why_not(name) == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-m", "nowhere"], "there is no module 'nowhere'."),
        (["-m", "script.py"], "Leave out -m."),
        (["python3", "nowhere.py"], "there is no script 'nowhere.py'"),
    ],
)
def test_a_run_of_it_makes_nothing_and_is_2(
    words: list[str], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "-n", "2", *words]) == exitcodes.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("holdfast: ")
    assert said in line
    assert not (here / "runs").exists()
