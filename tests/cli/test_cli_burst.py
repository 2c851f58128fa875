"""`holdfast burst` of a run that has ended, from its folder; and of a node that is used."""

import json
from pathlib import Path
from typing import Any

import pytest
from shells import Shell
from waiting import DEADLINE_S, eventually

from holdfast.lab.cluster import Lab
from holdfast.traces.bursts import kept
from holdfast.traces.bursts.record import Burst, Rail, encode

SENDS = """
import os, pathlib, socket, time
port, every_s = 29_411, 0.05
if os.environ["RANK"] == "0":
    listening = socket.create_server(("", port))
    taken, _ = listening.accept()
    while taken.recv(1 << 20):
        pass
while True:
    try:
        sending = socket.create_connection((os.environ["MASTER_ADDR"], port))
        break
    except OSError:
        time.sleep(every_s)
sent = 0
while True:
    sending.sendall(bytes(200_000))
    sent += 1
    if sent == 5:
        pathlib.Path("sends").touch()
    time.sleep(every_s)
"""


def keep(root: Path, job: str) -> None:
    rail = Rail(name="eth0", received=[1_000, 0], sent=[5_000, 0], errors=[0, 0], drops=[0, 0])
    burst = Burst(
        node="node-1",
        seconds=1.0,
        missed=0,
        cpu_s=0.1,
        degraded="",
        at_us=[0, 1_000, 2_000],
        rails=[rail],
    )
    note = kept.Note(
        id=0,
        node="node-1",
        began_at="2026-01-01T12:00:00.000+00:00",
        began_s=5.0,
        why="a person asked",
        incident=None,
        rails=["eth0"],
        samples=3,
    )
    kept.keep(root, job, note, encode(burst))


@pytest.mark.cluster
def test_of_a_run_that_has_ended_they_are_listed_and_shown_from_its_folder(shell: Shell) -> None:
    shell.script("train.py", "print('over')")
    assert shell.holdfast("run", "-n", "1", "train.py").returncode == 0
    name = shell.run.name
    none = shell.asked("burst", "ls", name)
    assert none.stdout.splitlines()[-1] == (
        f"no bursts are kept of {name}, and it does not run now"
    )
    keep(shell.run, name)
    (row,) = json.loads(shell.asked("burst", "ls", name, "--json").stdout)["items"]
    assert (row["id"], row["node"], row["rails"]) == (1, "node-1", ["eth0"])
    assert "a person asked" in shell.asked("burst", "ls", name).stdout
    said = shell.asked("burst", "show", name, "1", "--svg", "a.svg")
    assert said.returncode == 0, said.stderr
    assert (shell.folder / "a.svg").read_text().startswith("<svg")
    rows = shell.asked("burst", "show", name, "1", "--format", "csv").stdout.splitlines()
    assert rows[0] == "rail,from_s,to_s,received_bytes,sent_bytes"
    assert rows[1] == "eth0,0.0,0.001,1000,5000"
    (listed,) = json.loads(shell.asked("burst", "ls", name, "--format", "json").stdout)
    assert listed["id"] == 1
    assert (
        "eth0: 3 MB/s on average, at most 6 MB/s" in shell.asked("burst", "show", name, "1").stdout
    )
    missing = shell.asked("burst", "show", name, "2")
    assert (missing.returncode != 0, f"{name} has no burst 2" in missing.stderr) == (True, True)
    assert "there is no job 'nobody'" in shell.asked("burst", "ls", "nobody").stderr
    taken = shell.asked("burst", "node-1")
    assert (taken.returncode != 0, "Traceback" in taken.stderr) == (True, False)


@pytest.mark.cluster
@pytest.mark.slow
def test_what_a_rail_of_an_emulated_node_moves_is_counted_and_drawn(
    tmp_path: Path, shell: Shell
) -> None:
    shell.script("sends.py", SENDS)
    spec = {"nodes": 2, "command": ["python", "sends.py"], "workdir": str(shell.folder)}
    with Lab(tmp_path / "lab", nodes=2) as lab:
        job = lab.submit({"metadata": {"name": "sends"}, "spec": spec})
        eventually((shell.folder / "sends").exists, "one sends to the other")
        shell.told["HOLDFAST_STATE"] = str(lab.run.root)
        taken = shell.asked("burst", "node-1", "--seconds", "2")
        assert taken.returncode == 0, taken.stderr
        found: dict[str, Any] = json.loads(shell.asked("burst", "show", job, "1", "--json").stdout)
        assert shell.asked("burst", "show", job, "1", "--svg", "a.svg").returncode == 0
    moved = {
        each["name"]: sum(each["received_bytes"] + each["sent_bytes"]) for each in found["rails"]
    }
    assert max(moved.values()) > 1_000_000, moved
    assert "not used alike" not in found["says"], found["says"]
    assert "█" in taken.stdout
    assert 'class="sent"' in (shell.folder / "a.svg").read_text()
    assert DEADLINE_S > found["seconds"] == 2.0


def test_options_stand_before_or_behind_the_node(shell: Shell) -> None:
    for words in (("--seconds", "99", "node-1"), ("node-1", "--seconds", "99")):
        refused = shell.asked("burst", *words)
        assert refused.returncode == 2
        assert "'99' is not between 1 and 10" in refused.stderr
    assert "holdfast burst NODE" in shell.asked("burst", "-h").stdout
