"""Who interrupts the demo, or sees it fail, is told where its logs are."""

from pathlib import Path

import pytest

from holdfast.lab.logs import logs_told


@pytest.mark.parametrize("end", [KeyboardInterrupt, LookupError])
def test_a_block_that_is_cut_short_says_where_its_logs_are(
    end: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(end), logs_told(Path("/logs")):
        raise end
    assert capsys.readouterr().err == "logs: /logs\n"


def test_one_that_comes_to_its_end_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with logs_told(Path("/logs")):
        pass
    assert capsys.readouterr().err == ""
