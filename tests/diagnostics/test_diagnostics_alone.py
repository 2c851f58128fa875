"""`holdfast-diagnose` as a process: it says what it does, and Ctrl-C ends it with one line."""

import os
import signal
import subprocess
import sys

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
