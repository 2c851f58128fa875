"""`holdfast-diagnose` as a process: it says what it does, and Ctrl-C ends it with one line."""

import os
import signal
import subprocess
import sys

import pytest

from holdfast.diagnostics import alone
from holdfast.protocol import exitcodes


def test_it_says_what_it_does_and_ctrl_c_ends_it_and_its_test_with_one_line() -> None:
    command = [sys.executable, "-m", "holdfast.diagnostics.alone", "--node", "n1"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0, text=True
    ) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == "compute, time 1 …\n"
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        out, err = running.communicate(timeout=30)
    assert running.returncode == exitcodes.INTERRUPTED
    # Both pipes were at their end: the test had them too, and is gone.
    assert (out, err) == ("", "holdfast-diagnose: interrupted; nothing is left running\n")


@pytest.mark.parametrize("least", ["-5", "nan", "inf", "fast"])
def test_what_has_to_be_reached_is_a_number(least: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        alone.main(["--compute-gflops", least])
    assert ended.value.code == exitcodes.USAGE
    assert f"{least!r} is not a number from 0 to 1e+09." in capsys.readouterr().err
