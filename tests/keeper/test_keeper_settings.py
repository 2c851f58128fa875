"""What a keeper does not take on its command line, and how it says so."""

from pathlib import Path

import pytest
from authorities import CA

from holdfast.keeper import settings

WORDS = ["--state", "s", "--driver", "https://127.0.0.1:1", "--driver-ca"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file or directory"),
        (b"", "it is empty"),
        (b"no certificate", "it has no certificate in PEM"),
        (b"\x80\x00\xff", "it has no certificate in PEM"),
        (CA.key.encode(), "it has a private key, which is for nobody else to see"),
        ((CA.certificate + CA.key).encode(), "it has a private key, which is for nobody else to"),
    ],
    ids=["missing", "empty", "text", "bytes", "key", "key beside it"],
)
def test_a_ca_that_is_none_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, why: str
) -> None:
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SystemExit):
        settings.read([*WORDS, str(path)])
    said = capsys.readouterr().err
    assert f"argument --driver-ca: {path}: {why}" in said
    assert "Name the driver's ca.crt." in said
    assert "BEGIN" not in said


def test_a_ca_is_handed_on_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    path.write_text(CA.certificate)
    assert settings.read([*WORDS, str(path)]).driver.ca == CA.certificate
