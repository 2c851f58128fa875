"""A process that is no child of ours is watched as one that is."""

import os
import subprocess
import sys

import pytest

from holdfast.kit.foreign import ENDED, Foreign

STARTS = """
import subprocess
print(subprocess.Popen(["sleep", "600"], stdout=-3, stderr=-3).pid)
"""


def _no_child() -> int:
    """The pid of a process whose parent was another one, which has ended."""
    done = subprocess.run([sys.executable, "-c", STARTS], stdout=subprocess.PIPE, check=True)
    return int(done.stdout)


def test_it_is_told_when_it_has_ended_and_signals_reach_it() -> None:
    process = Foreign.of(_no_child())
    assert process is not None
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.terminate()
    assert process.wait(60) == ENDED
    assert process.poll() == ENDED
    process.kill()  # nothing is there any more


def test_there_is_none_where_it_has_ended() -> None:
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    assert Foreign.of(pid) is None
