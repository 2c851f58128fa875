"""Commands against a driver with TLS: found here, named from elsewhere, and not trusted."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from authorities import STRANGER
from waiting import DEADLINE_S, eventually

from holdfast.cli.main import main
from holdfast.protocol import exitcodes
from holdfast.protocol.paths import RunPaths


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunPaths]:
    """Of a running driver that has no nodes."""
    folder = tmp_path_factory.mktemp("driver")
    words = ["driver", "--state", str(folder), "--tls"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", *words], stdout=log, stderr=log
        )
    try:
        eventually((folder / "driver.json").exists, "the driver answers")
        yield RunPaths(folder)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE_S)


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HOLDFAST_STATE", "HOLDFAST_TOKEN", "HOLDFAST_CA"):
        monkeypatch.delenv(name, raising=False)


def url(state: RunPaths) -> str:
    told: str = json.loads(state.address.read_text())["http"]
    return told


def test_beside_it_nothing_has_to_be_told(state: RunPaths) -> None:
    assert main(["jobs", "--state", str(state.root)]) == 0
    assert main(["jobs", "--state", str(state.root), "--driver", url(state)]) == 0


def test_from_elsewhere_its_ca_is_needed_and_that_is_said(
    state: RunPaths,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", state.user_token.read_text().strip())
    asked = ["jobs", "--driver", url(state)]
    assert main(asked) == exitcodes.CONFIGURATION
    said = capsys.readouterr().err
    assert "its certificate is not trusted: unable to get local issuer certificate." in said
    assert "Set HOLDFAST_CA to a file with the certificate of its CA" in said
    (tmp_path / "other.crt").write_text(STRANGER.certificate)
    monkeypatch.setenv("HOLDFAST_CA", "other.crt")
    assert main(asked) == exitcodes.CONFIGURATION
    monkeypatch.setenv("HOLDFAST_CA", str(state.ca))
    assert main(asked) == 0
    monkeypatch.delenv("HOLDFAST_TOKEN")
    assert main(asked) == exitcodes.CONFIGURATION
    assert "no token for the driver" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot read my.crt: No such file"), ("x", "my.crt is not the certificate of a CA")],
)
def test_a_file_that_has_no_ca_is_told(
    content: str | None,
    said: str,
    state: RunPaths,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOLDFAST_CA", "my.crt")
    if content is not None:
        (tmp_path / "my.crt").write_text(content)
    assert main(["jobs", "--driver", url(state)]) == exitcodes.CONFIGURATION
    assert said in capsys.readouterr().err


def test_without_tls_it_does_not_answer(
    state: RunPaths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "x")
    plain = url(state).replace("https:", "http:")
    assert main(["jobs", "--driver", plain]) == exitcodes.UNAVAILABLE
    assert f"the driver at {plain} does not answer" in capsys.readouterr().err
