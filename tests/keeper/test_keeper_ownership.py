"""Who starts whom, who restarts whom, and what is left when each is killed. Real kills."""

import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from exchanging import exchange
from hypothesis import given
from hypothesis import strategies as st
from waiting import DEADLINE_S, eventually

from holdfast.keeper import lock, processes
from holdfast.keeper import state as states
from holdfast.keeper.factory import COMMANDS
from holdfast.keeper.lock import Patience, is_kept, locked
from holdfast.keeper.memory import MARK, memory_root
from holdfast.protocol import exitcodes, lease

pytestmark = pytest.mark.cluster


def test_a_killed_executor_takes_its_ranks_along_and_is_started_again(keeper, is_gone):
    keeper.start()
    before, rank = keeper.host(), keeper.rank()
    os.kill(before["executor"], signal.SIGKILL)
    eventually(lambda: is_gone(rank), "the rank is gone")
    eventually(lambda: keeper.host()["executor"] != before["executor"], "another executor")
    after = keeper.host()
    assert after["daemon"] == before["daemon"], "nothing else dies with an executor"
    assert after["incarnation"] == before["incarnation"]
    assert keeper.rank(other_than=rank)


def test_a_killed_daemon_is_started_again_alone(keeper):
    keeper.start()
    before = keeper.host()
    os.kill(before["daemon"], signal.SIGKILL)
    eventually(lambda: keeper.host()["daemon"] != before["daemon"], "another daemon")
    assert keeper.host()["executor"] == before["executor"]


def test_a_killed_host_takes_its_whole_node_along_and_the_node_starts_again(keeper, is_gone):
    keeper.start()
    before, rank, other = keeper.host(), keeper.rank(), keeper.host("node-2")
    os.kill(keeper.node().host_pid, signal.SIGKILL)
    for pid in (before["executor"], before["daemon"], rank):
        eventually(lambda pid=pid: is_gone(pid), "all of the node is gone")
    eventually(lambda: keeper.host()["incarnation"] != before["incarnation"], "a new host")
    assert keeper.host("node-2") == other, "the other node noticed nothing"


def test_nodes_outlive_a_killed_keeper_and_the_next_one_adopts_them(keeper, is_gone):
    keeper.start()
    before, rank = keeper.host(), keeper.rank()
    keeper.kill()
    assert not is_gone(rank)
    keeper.start()
    assert keeper.host() == before
    assert not is_gone(rank)


def test_a_host_that_died_while_no_keeper_was_there_leaves_nothing_to_the_next(keeper, is_gone):
    keeper.start()
    before, rank = keeper.host(), keeper.rank()
    keeper.kill()
    os.kill(before["pid"], signal.SIGKILL)
    keeper.start()
    for pid in (before["executor"], before["daemon"], rank):
        eventually(lambda pid=pid: is_gone(pid), "swept by the next keeper")
    eventually(lambda: keeper.host()["incarnation"] != before["incarnation"], "a new host")


def test_a_host_that_a_killed_keeper_did_not_write_down_is_not_left_beside_another(keeper, is_gone):
    keeper.start()
    before, rank, other = keeper.host(), keeper.rank(), keeper.host("node-2")
    keeper.kill()
    state = keeper.state
    state.nodes["node-1"].host_pid = state.nodes["node-1"].host_start_ticks = 0
    states.save(keeper.root, state)
    keeper.start()
    for pid in (before["pid"], before["executor"], before["daemon"], rank):
        eventually(lambda pid=pid: is_gone(pid), "ended by the next keeper")
    eventually(lambda: keeper.host()["incarnation"] != before["incarnation"], "a new host")
    assert keeper.host("node-2") == other, "what is written down is adopted"


def test_a_node_that_cannot_be_started_ends_no_other_and_is_started_later(keeper, is_gone):
    keeper.start()
    before, other = keeper.host(), keeper.host("node-2")
    folder = Path(keeper.node().folder)
    (aside := folder.with_name("kept")).write_text("no folder")
    exchange(folder, aside)
    os.kill(keeper.node().host_pid, signal.SIGKILL)
    eventually(lambda: is_gone(before["pid"]), "the host is gone")
    eventually(lambda: "a node could not be started" in keeper.said(), "it is said")
    assert keeper.host("node-2") == other, "the other node noticed nothing"
    exchange(folder, aside)  # in one: the keeper makes a folder that is missing
    eventually(lambda: keeper.host()["incarnation"] != before["incarnation"], "a new host")
    assert keeper.host("node-2") == other


def test_a_state_that_cannot_be_saved_ends_no_node_and_is_saved_later(keeper):
    keeper.start()
    before, other = keeper.host(), keeper.host("node-2")
    path, said = states.state_path(keeper.root), Path(keeper.node().folder) / "host.json"
    (aside := path.with_name("aside")).mkdir()
    exchange(path, aside)
    try:
        os.kill(before["pid"], signal.SIGKILL)
        eventually(lambda: json.loads(said.read_bytes()) != before, "a new host")
    finally:
        path.rmdir()
    eventually(path.exists, "the state is saved")
    assert keeper.host()["pid"] == keeper.node().host_pid != before["pid"]
    assert keeper.host("node-2") == other, "the other node noticed nothing"


def test_nothing_is_left_when_the_keeper_is_told_to_end(keeper):
    keeper.start()
    keeper.rank("node-1"), keeper.rank("node-2")
    assert memory_root(keeper.state.run_id).is_dir()
    assert keeper.stop() == exitcodes.OK
    assert keeper.left() == []
    assert not memory_root(keeper.state.run_id).exists()
    assert not keeper.socket.exists()


def test_nothing_is_left_when_the_keepers_owner_is_gone(keeper, pipe):
    theirs, ours = pipe
    keeper.start("--die-with-fd", str(theirs), pass_fds=(theirs,))
    keeper.rank()
    os.close(ours)
    assert keeper.process.wait(DEADLINE_S) == exitcodes.OK
    assert keeper.left() == []


def test_the_next_start_sweeps_the_memory_of_a_run_that_was_killed_whole(keeper, tmp_path):
    runs = [os.urandom(6).hex() for _ in range(2)]
    dead, alive = map(memory_root, runs)
    marked = os.environ | {processes.RUN_MARK: runs[1]}
    with subprocess.Popen(["/bin/sleep", "1000"], env=marked) as holder:
        try:
            eventually(lambda: processes.environment_of(holder.pid), "its exec is over")
            for folder in (alive, dead):  # from now on others may sweep it, too
                folder.mkdir()
                (folder / MARK).touch()
            keeper.start()
            assert not dead.exists()
            assert alive.exists(), "a run with a process of its own is nobody's to sweep"
        finally:
            holder.kill()
            for left in (dead, alive):
                shutil.rmtree(left, ignore_errors=True)


def test_processes_wait_for_the_drivers_token(keeper):
    token = keeper.root / "tokens" / "node"
    token.unlink()
    keeper.start()
    eventually(lambda: keeper.node().host_pid, "the host runs")
    assert not (Path(keeper.node().folder) / "host.json").exists()
    token.write_text("secret")
    assert keeper.host()["starts"] == {"executor": 1, "daemon": 1}


def test_a_second_keeper_on_the_same_state_refuses(keeper):
    keeper.start()
    second = subprocess.run(keeper.command(), capture_output=True, text=True, check=False)
    assert second.returncode == exitcodes.TRY_AGAIN
    assert "is in use by another keeper" in second.stderr


def test_a_folder_too_deep_for_a_socket_is_refused_with_the_limit(tmp_path):
    deep = tmp_path / ("d" * 100)
    command = [sys.executable, "-m", "holdfast.keeper.main", "--driver", "http://127.0.0.1:9"]
    said = subprocess.run(
        [*command, "--state", str(deep)], capture_output=True, text=True, check=False
    )
    assert said.returncode == exitcodes.CONFIGURATION
    assert "Use a shorter folder" in said.stderr


class FakeLease:
    """Answers renewals like a keeper until told to stop."""

    def __init__(self, token: str | None = None) -> None:
        """`token`: of its answers; None: of whoever asks."""
        self._token = token
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.1)
        self.renewals: list[lease.Renewal] = []
        self.answered_s = 0.0  # when it answered last
        self._silent = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def silence(self) -> None:
        self._silent.set()
        self._thread.join()
        self.socket.close()

    def _serve(self) -> None:
        while not self._silent.is_set():
            try:
                datagram, sender = self.socket.recvfrom(lease.MAX_DATAGRAM_BYTES)
            except TimeoutError:
                continue
            renewal = lease.unpack(datagram)
            assert renewal is not None
            self.renewals.append(renewal)
            self.answered_s = time.monotonic()
            token = renewal.token if self._token is None else self._token
            self.socket.sendto(lease.pack(renewal._replace(token=token)), sender)


def start_host(folder: Path, fake: FakeLease, **more: object) -> subprocess.Popen[bytes]:
    """A host whose keeper is `fake`."""
    config = {
        "node": "alone",
        "root": str(folder),
        "lease_host": "127.0.0.1",
        "lease_port": fake.socket.getsockname()[1],
        "token": "secret",
        "environment": {},
        "wait_for": "",
        **more,
    }
    path = folder / "host.config.json"
    path.write_text(json.dumps(config))
    return subprocess.Popen([sys.executable, "-m", "holdfast.keeper.host", str(path)])


PATIENCE_S = 10.0
"""Of a host: longer than a busy machine has the fake keeper stand still."""


def test_a_host_without_a_keeper_ends_its_node_when_its_patience_is_over(tmp_path):
    fake = FakeLease()
    commands = {"executor": ["/bin/sleep", "1000"]}
    with start_host(tmp_path, fake, commands=commands, outlive_keeper_s=PATIENCE_S) as host:
        try:
            eventually(lambda: len(fake.renewals) > 12, "it is answered for a while")
            executor = json.loads((tmp_path / "host.json").read_bytes())["executor"]
            assert processes.start_ticks(executor) is not None
            fake.silence()
            assert host.wait(DEADLINE_S) == 0
            assert time.monotonic() - fake.answered_s >= PATIENCE_S, "each answer counts"
        finally:
            fake.silence()
            host.terminate()
    assert processes.start_ticks(executor) is None
    assert {renewal.node for renewal in fake.renewals} == {"alone"}


def test_a_host_imports_little():
    imported = "import sys; import holdfast.keeper.host; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", imported], capture_output=True, text=True)
    names = {name.partition(".")[0] for name in done.stdout.split()}
    assert "holdfast" in names, done.stderr
    assert not names & {"structlog", "torch", "yaml", "httpx", "pydantic", "sqlalchemy"}


def test_a_host_that_hears_nothing_keeps_its_node_while_a_keeper_holds_the_lock(tmp_path):
    """Its link is cut, or its keeper is stopped: what runs there goes on."""
    fake, patience_s = FakeLease(), 1.0
    commands = {"executor": ["/bin/sleep", "1000"]}
    with (
        locked(tmp_path),
        start_host(tmp_path, fake, commands=commands, outlive_keeper_s=patience_s) as host,
    ):
        try:
            eventually(lambda: fake.answered_s, "it is answered")
            fake.silence()
            over_s = fake.answered_s + 3 * patience_s
            eventually(lambda: time.monotonic() > over_s, "its patience would be over")
            assert host.poll() is None
        finally:
            fake.silence()
            host.terminate()


@given(times=st.lists(st.floats(min_value=0.05, max_value=1.5), min_size=1, max_size=80))
def test_patience_is_over_only_where_there_was_no_keeper_all_the_time(times, tmp_path_factory):
    root, now_s, lasts_s = tmp_path_factory.mktemp("kept"), 0.0, 6.0
    patience = Patience(root, "run", lasts_s, now_s)
    with locked(root):
        for pause_s in times:
            now_s += pause_s
            assert not patience.is_over(now_s)
        now_s += 100 * lasts_s
        assert not patience.is_over(now_s), "we stood still"
    assert not patience.is_over(now_s + lasts_s)
    assert patience.is_over(now_s + lasts_s + 1.01)
    patience.heard(now_s := now_s + 2 * lasts_s)
    assert not patience.is_over(now_s + lasts_s / 2)


def test_a_host_ends_its_node_where_the_lock_is_held_by_a_keeper_of_another_run(tmp_path):
    """Whoever removed `keeper.json` has a new run there, which knows nothing of the older nodes."""
    fake, marks = FakeLease(), {processes.RUN_MARK: "run"}
    states.save(tmp_path, states.new_state("another", "127.0.0.1"))
    more = {"commands": {}, "environment": marks, "outlive_keeper_s": 1.0}
    with locked(tmp_path), start_host(tmp_path, fake, **more) as host:
        fake.silence()
        try:
            assert host.wait(DEADLINE_S) == 0
        finally:
            host.terminate()


def test_what_somebody_else_answers_keeps_no_node(tmp_path):
    """Its port may be another keeper's by now."""
    fake = FakeLease(token="another")
    with start_host(tmp_path, fake, commands={}, outlive_keeper_s=2.0) as host:
        try:
            assert host.wait(DEADLINE_S) == 0
            assert fake.answered_s
        finally:
            fake.silence()
            host.terminate()


def test_who_looks_is_nobodys_keeper(tmp_path):
    """Hosts whose keeper is gone look at one moment: none may take another for it."""
    with locked(tmp_path):
        assert is_kept(tmp_path, "run")
    with (tmp_path / lock.NAME).open() as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        assert not is_kept(tmp_path, "run")


def test_patience_looks_six_times_in_its_time(tmp_path, monkeypatch):
    """Each look is in the way of a new keeper, for a moment."""
    looks = []
    monkeypatch.setattr(lock, "is_kept", lambda *_: looks.append(1))
    patience, now_s = Patience(tmp_path, "run", 30.0, 0.0), 0.0
    while not patience.is_over(now_s):
        now_s += 0.2
    assert 5 <= len(looks) <= 6


def test_executor_and_daemon_end_with_a_killed_host_though_there_is_no_keeper(tmp_path):
    fake, told = FakeLease(), tmp_path / "host.json"
    (tmp_path / "token").write_text("secret")
    environment = {
        "HOLDFAST_NODE": "alone",
        "HOLDFAST_DRIVER_URL": "http://127.0.0.1:1",
        "HOLDFAST_NODE_TOKEN_FILE": str(tmp_path / "token"),
        "HOLDFAST_SCRATCH": str(tmp_path / "scratch"),
        "HOLDFAST_MEMORY": str(tmp_path / "memory"),
    }
    pids: list[int] = []
    with start_host(tmp_path, fake, commands=COMMANDS, environment=environment) as host:
        try:
            eventually(told.exists, "it has started both")
            said = json.loads(told.read_bytes())
            pids += [said[name] for name in COMMANDS]
            assert all(stat.S_ISFIFO(Path(f"/proc/{pid}/fd/0").stat().st_mode) for pid in pids)
            host.kill()
            assert processes.wait_gone(pids, DEADLINE_S)
            pids.clear()
        finally:
            fake.silence()
            host.kill()
            for pid in pids:
                processes.kill(pid)
