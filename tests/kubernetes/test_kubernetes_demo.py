"""`make demo-kubernetes` as a newcomer plays it: to its end, with a Ctrl-C, and with an accident.

What it says of itself is held against what it left: the audit log, the losses, the machine.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from shells import Shell, shell_in
from waiting import DEADLINE_S

from holdfast.keeper import processes
from holdfast.keeper import state as states
from holdfast.lab import losses
from holdfast.lab.emulator.leftovers import look
from holdfast.lab.emulator.namespaces import Kind, best_kind
from holdfast.protocol import exitcodes
from holdfast.protocol.paths import RunPaths

pytestmark = [
    *(pytest.mark.kubernetes, pytest.mark.cluster, pytest.mark.torch, pytest.mark.slow),
    pytest.mark.timeout(600),
]

REPOSITORY = Path(__file__).parents[2]
OF_KUBERNETES = ("system:serviceaccount:kube-system:", "system:kube-scheduler")
"""They say of a pod that its node is silent, or not ready for it yet."""

STEPS = 60
HURT = {STEPS: "demo", 4 * STEPS: "demo-2", 16 * STEPS: "demo-3"}
"""By its steps: on a busy machine the fault may come too late, and is done to a longer job then."""


class Play:
    """A demo in a folder of its own, looked at from outside."""

    def __init__(self, shell: Shell, *more: str) -> None:
        self.folder = shell.folder / "demo"
        there = ("--cluster", "kubernetes", "--folder", str(self.folder))
        self.process = shell.start("demo", *there, *more)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.out, self.err = self.process.stdout, self.process.stderr

    def until(self, what: str, told: Iterable[str]) -> None:
        """Read on until it says so. Raises with what it said instead."""
        said = []
        for line in told:
            if what in line:
                return
            said.append(line)
        raise AssertionError("".join([*said, self.out.read(), self.err.read()]))

    def kubelet(self) -> int:
        """Its pid as it was told last."""
        return int(json.loads((self.folder / "nodes" / "kubelet.json").read_bytes())["pid"])

    def kill(self, program: str) -> None:
        """One of its control plane's, found by looking at the machine."""
        place, name = str(self.folder / "kubernetes").encode(), f"{program}\0".encode()
        for pid in processes.all_pids():
            if place in (command := processes.command_of(pid)) and name in command:
                processes.kill(pid)

    def run_id(self) -> str:
        """The mark of all that belongs to its nodes."""
        found = states.load(self.folder / "nodes")
        assert found is not None
        return found.run_id

    def ended(self) -> int:
        return self.process.wait(DEADLINE_S)

    def wrote_status_of_pods(self) -> list[tuple[str, str]]:
        """Who did, and the pod's node, "" before it has one, by the audit log, whose last line may
        be half of one: it is written in blocks.
        """
        log = (self.folder / "kubernetes" / "audit.log").read_text()
        events = map(json.loads, log.rpartition("\n")[0].splitlines())
        return [
            (each["user"]["username"], each["responseObject"]["spec"].get("nodeName", ""))
            for each in events
            if each.get("objectRef", {}).get("resource") == "pods"
            and each["objectRef"].get("subresource") == "status"
            and each["verb"] not in ("get", "list", "watch")
            and each["responseStatus"]["code"] < 300
        ]


@pytest.fixture
def shell(programs: None) -> Iterator[Shell]:
    """In which nothing is left at the end. Its folder is short: there are Unix sockets in it."""
    kind, why = best_kind()
    if kind is Kind.LOOPBACK:
        pytest.skip(f"no namespaces here: {why}")
    with TemporaryDirectory(prefix="demo-") as short, shell_in(Path(short)) as made:
        yield made


def nothing_is_left(run_id: str, folder: Path, shell: Shell) -> None:
    """Processes, mounts, links, shared memory, cgroups; and no program of the control plane."""
    left = look(run_id, folder / "nodes")
    assert (left.count, shell.leftovers()) == (0, []), left


def test_make_plays_the_command() -> None:
    words = ["make", "--dry-run", "--no-print-directory", "demo-kubernetes"]
    would = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert would.stdout.split()[-4:] == [".venv/bin/holdfast", "demo", "--cluster", "kubernetes"]


def test_a_node_is_lost_with_the_kubelet_and_the_job_ends_as_if_it_had_not_been(
    shell: Shell,
) -> None:
    play = Play(shell, "--json")
    told = iter(play.err.readline, "")
    play.until("demo runs", told)
    kubelet, run_id = play.kubelet(), play.run_id()
    play.until("the link of node-", told)
    shown = list(told)
    lines = play.out.readlines()
    assert len(lines) == 1, "".join(shown)
    last: dict[str, Any] = json.loads(lines[0])
    assert (last["verdict"], play.ended()) == ("passed", exitcodes.OK), "".join(shown)
    assert (last["nodes"], last["ranks"], last["fault"]) == (4, 8, "node-unplugged")
    assert (len(last["evicted"]), last["innocent_evicted"]) == (1, 0)
    assert last["recovered_s"] > last["detected_s"] > 0
    assert (last["loss_equal_bitwise"], last["leftovers"]) == (True, 0)
    assert play.kubelet() != kubelet, "it was killed, and another started"

    read = partial(losses.read, RunPaths(play.folder))
    assert losses.equal_bitwise(read(HURT[last["steps"]]), read("left-alone"))
    wrote = play.wrote_status_of_pods()
    strangers = {who for who, node in wrote if who != f"system:node:{node}"}
    assert [who for who in strangers if not who.startswith(OF_KUBERNETES)] == []
    assert {f"system:node:node-{number + 1}" for number in range(5)} <= {who for who, _ in wrote}

    text = "".join(shown)
    for command in ("get tj", "get pods -o wide", "describe tj"):
        assert f"$ kubectl {command}" in text
    taints = rf"{last['evicted'][0]}   \S*\bholdfast\.dev/distrusted\b"
    assert re.search(taints, text), "beside others, where it is known to be silent by then"
    nothing_is_left(run_id, play.folder, shell)


def test_a_ctrl_c_in_its_middle_takes_all_of_it_down(shell: Shell) -> None:
    play = Play(shell)
    told = iter(play.out.readline, "")
    play.until("demo runs", told)
    run_id = play.run_id()
    os.killpg(play.process.pid, signal.SIGINT)  # as a terminal does: kubectl may hear it too
    assert play.ended() == exitcodes.INTERRUPTED
    assert play.err.read().splitlines() == [
        f"logs: {play.folder}",
        "interrupted; cluster and job were taken down",
    ]
    nothing_is_left(run_id, play.folder, shell)


def test_a_control_plane_that_ends_in_between_is_said_and_all_is_taken_down(shell: Shell) -> None:
    play = Play(shell)
    play.until("starting 4 nodes", iter(play.out.readline, ""))
    play.kill("kube-apiserver")
    assert play.ended() == exitcodes.FAILED
    logs, said, *_ = play.err.read().splitlines()
    assert logs == f"logs: {play.folder}"
    assert said.startswith("holdfast: kube-apiserver ended with exit code")
    nothing_is_left(play.run_id(), play.folder, shell)
