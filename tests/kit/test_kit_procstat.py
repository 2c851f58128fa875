"""What /proc says of true processes, those whose first thread has ended among them."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest
from dying import die_with_parent
from headless import headless
from waiting import eventually

from holdfast.kit.procstat import stat

NAME = "a) Z 1 (\xff "
"""Of a process, as anybody may choose it: with what ends a name in /proc/PID/stat."""
SCRIPT = f"""
import ctypes, os, time
ctypes.CDLL(None).prctl(15, {NAME.encode("latin-1")!r})  # PR_SET_NAME
while sum(os.times()[:2]) < 0.1:
    pass
print(flush=True)
time.sleep(1000)
"""


@pytest.fixture
def named() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, preexec_fn=die_with_parent
    )
    assert process.stdout is not None
    with process, process.stdout:
        process.stdout.readline()
        yield process
        process.kill()


def test_a_process_is_seen_whatever_its_name_until_it_is_reaped(
    named: subprocess.Popen[bytes],
) -> None:
    eventually(lambda: (seen := stat(named.pid)) is not None and seen.state == "S", "it sleeps")
    seen = stat(named.pid)
    assert seen is not None
    assert (seen.parent, seen.acts) == (os.getpid(), True)
    assert seen.cpu_s >= 0.1
    me = stat(os.getpid())
    assert me is not None
    assert me.started_ticks <= seen.started_ticks
    named.kill()
    os.waitid(os.P_PID, named.pid, os.WEXITED | os.WNOWAIT)
    dead = stat(named.pid)
    assert dead is not None
    assert (dead.state, dead.acts, dead.started_ticks) == ("Z", False, seen.started_ticks)
    named.wait()
    assert stat(named.pid) is None


def test_a_process_whose_first_thread_has_ended_has_the_state_of_another_until_all_have() -> None:
    """Else a rank of which a device still holds a thread would be taken for one that ended."""
    with headless() as process:
        eventually(
            lambda: (seen := stat(process.pid)) is not None and seen.state == "S", "it sleeps"
        )
        assert (seen := stat(process.pid)) is not None
        assert seen.acts
        process.kill()
        eventually(lambda: (seen := stat(process.pid)) is not None and not seen.acts, "all ended")


def test_who_has_no_file_left_to_look_with_calls_nobody_gone() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            stat(os.getpid())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
