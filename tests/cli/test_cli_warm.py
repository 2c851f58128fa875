"""`holdfast warm`: what a run takes over from it is what the run would have started itself."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from shells import Shell, heard, shell_in
from waiting import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.torch, pytest.mark.slow]

TELLS = """
import json, os, resource, signal, sys, torch, torch._dynamo
open("told." + os.environ["RANK"], "w").write(json.dumps({
    "cwd": os.getcwd(), "umask": os.umask(0), "lr": os.environ.get("LR"), "argv": sys.argv,
    "files": resource.getrlimit(resource.RLIMIT_NOFILE), "nice": os.nice(0),
    "fds": sorted(os.listdir("/proc/self/fd"))[:-1], "threads": torch.get_num_threads(),
    "names": sorted(name for name in os.environ if not name.startswith("TORCHELASTIC")),
    "ignored": [n for n in range(1, 32) if signal.getsignal(n) == signal.SIG_IGN],
    "path": sys.path, "session": os.getsid(0) == os.getpid(),
}))
"""
STAYS = """
import os, time
print("here", flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
print("gone")
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with shell_in(tmp_path_factory.mktemp("warm")) as made:
        made.told = {"HOLDFAST_WARM_DIR": str(made.folder / "w")}
        assert made.holdfast("warm", "-n", "2").returncode == 0
        yield made
        assert made.holdfast("warm", "--stop").returncode == 0
        assert [path.name for path in (made.folder / "w").iterdir() if path.is_socket()] == []


@pytest.fixture
def near(shell: Shell, warm: Shell) -> Shell:
    """Where runs are typed that may take it."""
    shell.told = dict(warm.told)
    return shell


def status(shell: Shell) -> dict[str, Any]:
    return dict(json.loads(shell.asked("warm", "--status", "--json").stdout))


def test_a_rank_of_it_is_what_it_is_without(near: Shell) -> None:
    near.script("tells.py", TELLS)
    near.told["LR"] = "3"
    near.through = ("sh", "-c", 'umask 027; exec "$@"', "sh")
    before = status(near)["taken"]

    def told() -> list[dict[str, Any]]:
        done = near.holdfast("run", "-q", "-n", "2", "tells.py", "--lr", "1")
        assert done.returncode == 0, done.stderr
        return [_told(near, rank) for rank in range(2)]

    taken = told()
    assert status(near)["taken"] == before + 1
    near.told["HOLDFAST_WARM_DIR"] = "/nowhere"
    alone = told()
    for of_it, own in zip(taken, alone, strict=True):
        assert of_it == own, [what for what in own if of_it[what] != own[what]]
    assert taken[0]["lr"] == "3"
    assert taken[0]["umask"] == 0o027


def test_what_cannot_be_set_anew_is_not_taken_and_said(near: Shell) -> None:
    near.script("tells.py", TELLS)
    near.told["OMP_NUM_THREADS"] = "2"
    done = near.holdfast("run", "-q", "-n", "2", "tells.py")
    assert (done.returncode, _told(near, 0)["threads"]) == (0, 2)
    said = near.asked("warm", "--status").stdout
    assert (
        "not taken: the variable OMP_NUM_THREADS has another value (ranks have it from -n" in said
    )


def test_a_run_goes_on_without_it_and_nothing_of_either_stays(shell: Shell) -> None:
    """Its folder may be named from where it is typed."""
    shell.told = {"HOLDFAST_WARM_DIR": "w"}
    shell.script("stays.py", STAYS)
    done = shell.holdfast("warm", "-n", "1")
    assert done.returncode == 0, done.stderr
    assert status(shell)["there"]
    running = shell.start("run", "-q", "stays.py")
    assert running.stdout is not None
    assert running.stdout.readline() == "here\n"
    assert status(shell)["taken"] == 1
    assert "has ended" in shell.asked("warm", "--stop").stdout
    (shell.folder / "go").touch()
    assert running.communicate()[0] == "gone\n"
    assert running.returncode == 0


def test_one_that_was_killed_hurts_nobody(shell: Shell) -> None:
    shell.told = {"HOLDFAST_WARM_DIR": str(shell.folder / "w")}
    shell.script("stays.py", STAYS)
    shell.holdfast("warm", "-n", "1")
    running = shell.start("run", "-q", "stays.py")
    assert running.stdout is not None
    running.stdout.readline()
    os.kill(status(shell)["pid"], signal.SIGKILL)
    (shell.folder / "go").touch()
    assert running.communicate()[0] == "gone\n"
    assert not status(shell)["there"]
    assert shell.holdfast("run", "-q", "stays.py").stdout == "here\ngone\n"
    assert shell.holdfast("warm", "-n", "1").returncode == 0
    shell.asked("warm", "--stop")


def test_a_node_of_it_that_is_killed_goes_whole_and_another_comes(near: Shell) -> None:
    near.script("stays.py", STAYS)
    running = near.start("run", "-n", "2", "stays.py")
    heard(running, "ranks here")
    (host,) = eventually(lambda: [*near.folder.glob("runs/*/nodes/node-1/host.json")])
    pids = eventually(lambda: _pids(host))
    launcher = eventually(lambda: _below(pids["executor"], "launcher"))
    ranks = eventually(lambda: _below(pids["executor"], "rank-1"))
    os.kill(pids["pid"], signal.SIGSTOP)  # else it ends what its executor leaves
    for name in ("executor", "pid"):
        os.kill(pids[name], signal.SIGKILL)
    eventually(lambda: not any(each.is_running() for each in (*launcher, *ranks)), "they go")
    (near.folder / "go").touch()
    out, err = running.communicate()
    assert running.returncode == 0, err
    assert "gone" in out


def _told(shell: Shell, rank: int) -> dict[str, Any]:
    return dict(json.loads((shell.folder / f"told.{rank}").read_text()))


def _pids(host: Path) -> dict[str, int] | None:
    told = json.loads(host.read_bytes())
    return told if told.get("executor") else None


def _below(pid: int, name: str) -> list[psutil.Process]:
    return [each for each in psutil.Process(pid).children() if each.name() == name]
