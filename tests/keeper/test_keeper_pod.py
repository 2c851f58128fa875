"""The first process of a pod: it keeps an executor and a daemon alive, and ends both."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import DEADLINE_S, eventually

from holdfast.keeper import processes
from holdfast.keeper.interfaces import interface_of
from holdfast.protocol import exitcodes, nodeenv

POD = [sys.executable, "-m", "holdfast.keeper.pod"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "token").write_text("of the pod\n")
    return os.environ | {
        nodeenv.NODE: "node-7",
        nodeenv.DRIVER_URL: "http://127.0.0.1:1",
        nodeenv.TOKEN_FILE: str(tmp_path / "token"),
        nodeenv.SCRATCH: str(tmp_path),
        nodeenv.MEMORY: str(tmp_path / "memory"),
    }


@pytest.fixture
def pod(environment: dict[str, str], tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (tmp_path / "log").open("wb") as log:
        running = subprocess.Popen(POD, env=environment, stdout=log, stderr=log)
    yield running
    if running.poll() is None:
        running.terminate()
    running.wait(DEADLINE_S)


def told(folder: Path) -> dict[str, Any]:
    """What it says of itself; nothing before both processes were started."""
    try:
        said: dict[str, Any] = json.loads((folder / "host.json").read_text())
    except OSError:
        return {}
    return said if said["executor"] and said["daemon"] else {}


def test_an_executor_that_dies_is_started_again_in_the_same_pod(
    pod: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    first = eventually(lambda: told(tmp_path))
    os.kill(first["executor"], signal.SIGKILL)
    again = eventually(
        lambda: (said := told(tmp_path)) and said["starts"]["executor"] == 2 and said
    )
    assert (again["pid"], again["daemon"]) == (pod.pid, first["daemon"])


def test_all_of_the_pod_ends_when_it_is_told_to_end(
    pod: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    said = eventually(lambda: told(tmp_path))
    pod.send_signal(signal.SIGTERM)
    assert pod.wait(DEADLINE_S) == exitcodes.OK
    assert [processes.start_ticks(said[name]) for name in ("executor", "daemon")] == [None, None]


def test_the_interface_of_its_address_is_found_for_the_ranks(
    pod: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    said = eventually(lambda: told(tmp_path))
    assert processes.environment_of(said["executor"])[nodeenv.IFNAME] == "lo"


@pytest.mark.parametrize(("address", "name"), [("127.0.0.1", "lo"), ("192.0.2.77", "")])
def test_an_address_leads_to_its_interface_or_to_none(address: str, name: str) -> None:
    assert interface_of(address) == name


def test_what_its_processes_write_is_the_log_of_the_pod(
    pod: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    eventually(lambda: "no driver" in (tmp_path / "log").read_text())


def test_an_environment_that_says_too_little_is_refused_with_all_that_is_missing(
    environment: dict[str, str],
) -> None:
    del environment[nodeenv.SCRATCH], environment[nodeenv.NODE]
    run = subprocess.run(POD, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == exitcodes.CONFIGURATION
    assert "HOLDFAST_NODE is not set" in run.stderr
    assert "HOLDFAST_SCRATCH is not set" in run.stderr
