"""The driver's process: started, killed and started again, with scripted nodes on real sockets."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from running_driver import DriverProcess
from scripted_cluster import STEP_OF_SNAPSHOTS, is_done, scripted_cluster, submit
from waiting import DEADLINE_S, eventually_async

from holdfast.driver.adapters.tokens import load_tokens
from holdfast.driver.lead.lock import take_lock
from holdfast.driver.main import main
from holdfast.driver.serve.listening import listen
from holdfast.driver.settings import Settings
from holdfast.protocol import exitcodes


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[DriverProcess]:
    made = DriverProcess(tmp_path / "run", "--keeper", str(tmp_path / "keeper.sock"))
    yield made
    if made.process is not None:
        made.end(signal.SIGKILL)


# ---------------------------------------------------------------- its life


async def test_it_answers_where_it_did_before_however_it_ended(driver: DriverProcess) -> None:
    first = await driver.start()
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=DEADLINE_S) as client:
        assert (await client.get(f"{first['http']}/healthz")).status_code == 200
    over_socket = httpx.AsyncHTTPTransport(uds=first["socket"], verify=False)
    async with httpx.AsyncClient(transport=over_socket, timeout=DEADLINE_S) as client:
        assert (await client.get("http://driver/healthz")).status_code == 200
    tokens = [driver.paths.user_token.read_text(), driver.paths.node_token.read_text()]
    driver.end(signal.SIGKILL)
    second = await driver.start()
    assert second["http"] == first["http"]
    assert tokens == [driver.paths.user_token.read_text(), driver.paths.node_token.read_text()]
    assert [each.term for each in driver.journal()] == [1, 2]
    assert driver.end(signal.SIGINT) == exitcodes.OK
    assert not driver.paths.address.exists()
    assert not driver.paths.socket.exists()
    with socket.create_server(("127.0.0.1", int(first["http"].rpartition(":")[2]))):
        third = await driver.start()
    assert third["http"] != first["http"]
    assert driver.end(signal.SIGTERM) == exitcodes.OK


async def test_what_it_keeps_is_for_its_owner_alone(driver: DriverProcess) -> None:
    paths = driver.paths
    paths.root.mkdir(mode=0o700)
    load_tokens(paths)
    opened = listen(Settings(state=paths.root))
    assert paths.socket.stat().st_mode & 0o777 == 0o600
    for token in (paths.user_token, paths.node_token):
        assert token.stat().st_mode & 0o777 == 0o600
        assert len(token.read_text().strip()) >= 40
    for each in filter(None, opened):
        each.close()


@pytest.fixture
def said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run a driver that refuses to start: its exit code, and its sentence."""
    monkeypatch.setattr("holdfast.driver.process.set_up_logs", lambda *_, **__: None)

    def run(*arguments: str) -> tuple[int, str]:
        code = main(["--state", str(tmp_path / "run"), *arguments])
        assert not (tmp_path / "run" / "driver.json").exists()
        return code, capsys.readouterr().err

    return run


def test_a_second_driver_on_the_same_state_refuses_and_names_the_first(
    driver: DriverProcess, said: Callable[..., tuple[int, str]]
) -> None:
    driver.paths.root.mkdir()
    held = take_lock(driver.paths.lock)
    code, sentence = said()
    os.close(held)
    assert code == exitcodes.TRY_AGAIN
    assert f"already used by the driver with pid {os.getpid()}" in sentence


@pytest.mark.parametrize("address", ["0.0.0.0:0", "127.0.0.1:0"])
def test_it_listens_nowhere_without_tokens(
    driver: DriverProcess, said: Callable[..., tuple[int, str]], address: str
) -> None:
    driver.paths.user_token.parent.mkdir(parents=True)
    driver.paths.user_token.touch(mode=0o600)
    code, sentence = said("--listen", address)
    assert code == exitcodes.CONFIGURATION
    assert "tokens/user: 0 characters, at least 16 are needed" in sentence


def test_a_token_that_everybody_can_read_is_refused(
    driver: DriverProcess, said: Callable[..., tuple[int, str]]
) -> None:
    driver.paths.node_token.parent.mkdir(parents=True)
    driver.paths.node_token.write_text("x" * 43)
    driver.paths.node_token.chmod(0o644)
    code, sentence = said()
    assert code == exitcodes.CONFIGURATION
    assert "Run: chmod 600" in sentence


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--listen", "everywhere"], "--listen: give an IP address and a port"),
        (["--listen", "127.0.0.1:99999"], "--listen: give an IP address and a port"),
        (["--namespace", "Bad_NS!"], "--namespace: 'Bad_NS!' is no name of a namespace: give a-z"),
        (["--namespace", "ai"], "--namespace: it needs --cluster kubernetes"),
        (["--traces", "kafka://x"], "--traces: 'kafka://x' is no place for traces: give redis:"),
        (["--traces", "off"], "--traces: it needs --cluster kubernetes"),
        (
            ["--cluster", "kubernetes", "--traces-secret", "spans"],
            "--traces-secret: it needs --traces redis://HOST:PORT",
        ),
        (
            ["--cluster", "kubernetes", "--traces", "redis://r:1", "--traces-secret", "A_b"],
            "--traces-secret: 'A_b' is no name of a Secret: give a-z",
        ),
        (["--advertise", "here"], "--advertise: 'here' is no address of a driver: give http"),
        (["--listen", "198.51.100.1:0"], "listen 198.51.100.1:0: "),
        (
            ["--heartbeat-period-s", "0"],
            "--heartbeat-period-s: it should be greater than or equal to 0.05, not '0'",
        ),
        (["--die-with-fd", "99"], "--die-with-fd: 99 is no pipe or socket of this process: give"),
        (["--state", "/tmp/" + "x" * 120], "too long a path for a Unix socket"),
    ],
    ids=[
        "listen",
        "port",
        "namespace",
        "no cluster",
        "traces",
        "traces, no cluster",
        "secret, no traces",
        "secret",
        "url",
        "not ours",
        "period",
        "descriptor",
        "long path",
    ],
)
def test_a_bad_setting_is_refused_in_a_sentence(
    tmp_path: Path, said: Callable[..., tuple[int, str]], arguments: list[str], sentence: str
) -> None:
    arguments = [each.replace("/tmp/", f"{tmp_path}/") for each in arguments]
    code, found = said(*arguments)
    assert code in (exitcodes.USAGE, exitcodes.CONFIGURATION)
    assert sentence in found


def test_it_does_without_torch_and_starts_without_what_few_ask_for() -> None:
    script = """
import sys
import holdfast.driver.adapters.rest.app, holdfast.driver.process
from holdfast.kit.logs import LazyLogger
LazyLogger().info("a line")
print({"torch", "rich", "holdfast.driver.adapters.rest.description"} & sys.modules.keys())
import rich.console
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
    assert '"event": "a line"' in ran.stderr


# ---------------------------------------------------------------- a job, and the driver killed


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_job_with_a_crash_ends_well_though_the_driver_is_killed_again_and_again(
    driver: DriverProcess, tmp_path: Path
) -> None:
    """Killed as soon as the journal has grown by a few entries: wherever it then is."""
    kills = 0
    async with scripted_cluster(driver, tmp_path) as executors:
        await driver.start()
        await submit(driver)
        for grown in (2, 3, 6):
            size = len(driver.journal())
            with suppress(TimeoutError):  # it waits for the end already
                await eventually_async(lambda n=size + grown: len(driver.journal()) >= n, 1.0)  # type: ignore[misc]
            os.kill(driver.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
            kills += 1
            driver.end()
            await driver.start()
        for each in executors.values():
            each.may_end.set()
        await eventually_async(lambda: is_done(driver))
    assert [each.attempts for each in executors.values()] == [[1, 2], [1, 2]]
    entries = driver.journal()
    assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
    assert entries[-1].term == kills + 1
    starts = [entry.why for entry in entries if "starts attempt" in entry.why]
    assert [why.endswith("from the beginning") for why in starts] == [True, False]
    assert f"from the snapshot of step {STEP_OF_SNAPSHOTS} in memory" in starts[1]
    assert any("rank 1 on node-2 died of SIGKILL" in entry.why for entry in entries)
