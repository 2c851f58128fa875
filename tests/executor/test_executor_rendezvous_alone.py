"""The process of an attempt's rendezvous, whose executor is killed."""

import json
import subprocess
import sys

import pytest

DEADLINE_S = 120.0


@pytest.mark.torch
def test_a_rendezvous_ends_with_the_executor_though_nobody_ends_it() -> None:
    executor = subprocess.Popen(["sleep", "300"])
    words = [sys.executable, "-m", "holdfast.executor.launcher.rendezvous", "127.0.0.1"]
    serves = subprocess.Popen([*words, str(executor.pid)], stdout=subprocess.PIPE)
    try:
        assert serves.stdout is not None
        assert json.loads(serves.stdout.readline())["port"] > 0
        assert serves.poll() is None
        executor.kill()
        executor.wait()
        assert serves.wait(DEADLINE_S) == 0
    finally:
        for each in (executor, serves):
            each.kill()
            each.communicate()
