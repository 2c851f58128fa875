"""A driver with TLS: its process on real sockets, its certificates, and what it refuses."""

import asyncio
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

import httpx
import pytest
from authorities import CA, DAY, NOW, STRANGER, WallClock
from fastapi import FastAPI
from running_driver import DriverProcess
from waiting import DEADLINE_S

from holdfast.driver.adapters.authority import LIFE, Issued, issue
from holdfast.driver.main import main
from holdfast.driver.ports import Pair, PermanentError
from holdfast.driver.serve.server import Server
from holdfast.driver.serve.tls import Tls, hosts, open_tls
from holdfast.driver.settings import Settings
from holdfast.kit.tls import trusting
from holdfast.protocol import exitcodes
from holdfast.protocol.paths import RunPaths

HOSTS = ("localhost", "127.0.0.1")


# ---------------------------------------------------------------- its process


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[DriverProcess]:
    made = DriverProcess(tmp_path / "run", "--tls", "--keeper", str(tmp_path / "run/keeper.sock"))
    yield made
    if made.process is not None:
        made.end(signal.SIGKILL)


def trust(driver: DriverProcess) -> ssl.SSLContext:
    return trusting(driver.paths.ca.read_text())


async def healthz(url: str, context: ssl.SSLContext) -> str:
    async with httpx.AsyncClient(verify=context, trust_env=False, timeout=DEADLINE_S) as client:
        return (await client.get(f"{url}/healthz")).text


async def test_it_speaks_tls_on_tcp_alone_to_whoever_trusts_its_ca(driver: DriverProcess) -> None:
    at = await driver.start()
    assert at["http"].startswith("https://127.0.0.1:")
    assert await healthz(at["http"], trust(driver)) == "ok\n"
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        await healthz(at["http"], trusting(STRANGER.certificate))
    over_socket = httpx.AsyncHTTPTransport(uds=at["socket"], verify=False)
    async with httpx.AsyncClient(transport=over_socket, timeout=DEADLINE_S) as client:
        assert (await client.get("http://driver/healthz")).status_code == 200


async def test_what_comes_without_tls_is_not_answered(driver: DriverProcess) -> None:
    port = int((await driver.start())["http"].rpartition(":")[2])
    token = driver.paths.user_token.read_text().strip()
    asked = f"GET /v1alpha1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as plain:
        plain.sendall(asked.encode())
        answer = b""
        with suppress(ConnectionResetError):
            while piece := plain.recv(1_024):
                answer += piece
    assert b"HTTP" not in answer


async def test_its_ca_outlives_it_and_the_key_is_in_its_own_journal_alone(
    driver: DriverProcess,
) -> None:
    at = await driver.start()
    before = driver.paths.ca.read_text()
    driver.end(signal.SIGKILL)
    await driver.start()
    assert driver.paths.ca.read_text() == before
    assert await healthz(at["http"], trusting(before)) == "ok\n"
    assert driver.end() == exitcodes.OK
    files = [path for path in driver.paths.root.rglob("*") if path.is_file()] + [driver.log]
    secret = [path for path in files if b"PRIVATE KEY" in path.read_bytes()]
    assert secret
    for path in secret:
        assert path.name.startswith("journal.sqlite"), path
        assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.cluster
async def test_a_node_does_a_job_over_it(driver: DriverProcess, tmp_path: Path) -> None:
    at = await driver.start()
    state = driver.paths.root
    words = ["--state", str(state), "--driver", at["http"], "--driver-ca", str(driver.paths.ca)]
    keeper = [sys.executable, "-m", "holdfast.keeper.main", *words]
    token = driver.paths.user_token.read_text().strip()
    client = httpx.AsyncClient(
        base_url=f"{at['http']}/v1alpha1",
        headers={"Authorization": f"Bearer {token}"},
        verify=trust(driver),
        trust_env=False,
        timeout=DEADLINE_S,
    )

    async def phase() -> str:
        told: dict[str, str] = (await client.get("/jobs/short")).json()
        return told["phase"]

    with (tmp_path / "keeper.log").open("wb") as log:
        process = subprocess.Popen(keeper, stdout=log, stderr=log)
    try:
        async with client, asyncio.timeout(DEADLINE_S):
            spec = {"nodes": 1, "command": ["sh", "-c", "true"], "workdir": str(tmp_path)}
            kind = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "TrainingJob"}
            submitted = {**kind, "metadata": {"name": "short"}, "spec": spec}
            assert (await client.post("/jobs", json=submitted)).status_code == 201
            while (now := await phase()) not in ("Succeeded", "Failed"):
                await asyncio.sleep(0.05)
            assert now == "Succeeded"
            (node,) = (await client.get("/nodes")).json()["items"]
            assert node["connected"]
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, DEADLINE_S)


# ---------------------------------------------------------------- certificates


@pytest.fixture
def serve() -> Callable[[Tls], AbstractAsyncContextManager[tuple[str, int]]]:
    """Serve with it as the driver does; where."""

    @asynccontextmanager
    async def serving(tls: Tls) -> AsyncIterator[tuple[str, int]]:
        listening = socket.create_server(("127.0.0.1", 0))
        server = Server(FastAPI(), tls.context)
        task = asyncio.create_task(server.serve([listening]))
        try:
            yield listening.getsockname()
        finally:
            server.should_exit = True
            await task

    return serving


async def serial(at: tuple[str, int], ca: str = CA.certificate) -> str:
    """Of the certificate that is shown there. Raises `ssl.SSLError`."""
    _, writer = await asyncio.open_connection(*at, ssl=trusting(ca))
    found: str = writer.get_extra_info("peercert")["serialNumber"]
    writer.close()
    with suppress(ssl.SSLError):
        await writer.wait_closed()
    return found


async def test_a_certificate_is_renewed_while_it_is_good_and_the_ca_stays(
    serve: Callable[[Tls], AbstractAsyncContextManager[tuple[str, int]]],
) -> None:
    clock = WallClock(NOW - LIFE / 2 + DAY)
    tls = Tls(Issued(CA, HOSTS, clock), ca=CA.certificate)
    async with serve(tls) as at:
        first = await serial(at)
        clock.now += DAY / 2
        tls.renew()
        assert await serial(at) == first, "it is good for long yet"
        clock.now = NOW + DAY
        tls.renew()
        with pytest.raises(ssl.SSLCertVerificationError, match="not yet valid"):
            await serial(at)  # the machine's own clock has not gone on
        clock.now = NOW
        tls.renew()  # a clock that was set back makes a new one too
        assert await serial(at) != first


async def test_one_that_has_expired_is_refused_by_who_looks(
    serve: Callable[[Tls], AbstractAsyncContextManager[tuple[str, int]]],
) -> None:
    clock = WallClock(NOW - LIFE - DAY)
    async with serve(Tls(Issued(CA, HOSTS, clock), ca=CA.certificate)) as at:
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            await serial(at)


def test_what_is_given_is_shown_anew_when_it_changes_and_kept_while_it_is_bad(
    tmp_path: Path,
) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def put(pair: Pair) -> None:
        certificate.write_text(pair.certificate)
        key.write_text(pair.key)
        key.chmod(0o600)

    first, second = (issue(CA, HOSTS, NOW) for _ in range(2))
    put(first)
    settings = Settings(state=tmp_path, tls=True, tls_certificate=certificate, tls_key=key)
    tls = open_tls(settings, WallClock())
    assert tls.ca == ""
    RunPaths(tmp_path).ca.write_text("of a CA that vouched before")
    tls.publish(RunPaths(tmp_path))
    assert not RunPaths(tmp_path).ca.exists()
    certificate.write_text(second.certificate)
    with pytest.raises(PermanentError, match=r"cannot be used \(key values mismatch\)"):
        tls.renew()
    assert tls._shown == first
    put(second)
    tls.renew()
    assert tls._shown == second


def test_its_certificate_is_good_for_all_that_it_is_called() -> None:
    settings = Settings(
        state=Path("/s"),
        listen="0.0.0.0:7700",
        tls=True,
        driver_urls="https://a.example:7700,https://[fd00::1]:7700",
        advertise="https://10.0.0.2:7700",
    )
    named = {"localhost", "127.0.0.1", "::1", "0.0.0.0", "a.example", "fd00::1", "10.0.0.2"}
    assert set(hosts(settings)) == named
    assert issue(CA, hosts(settings), NOW).certificate


# ---------------------------------------------------------------- what it refuses


@pytest.fixture
def refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run a driver that refuses to start; its sentence."""
    monkeypatch.setattr("holdfast.driver.process.set_up_logs", lambda *_, **__: None)

    def run(*arguments: str) -> str:
        state = mkdtemp(dir=tmp_path)  # this process keeps the lock of each
        code = main(["--state", state, *arguments])
        assert code in (exitcodes.USAGE, exitcodes.CONFIGURATION)
        return capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--tls-certificate a --tls-key b", "--tls-certificate: it needs --tls"),
        ("--tls --tls-certificate a", "--tls-certificate: give it and --tls-key, or neither"),
        ("--tls --tls-ca a", "--tls-ca: it is the CA of --tls-certificate"),
        ("--tls --advertise http://a:1", "--tls: 'http://a:1' is no address with TLS"),
        ("--tls --driver-urls https://a:1,b", "--driver-urls: 'b' is no address of a driver"),
        ("--tls --tls-certificate no.crt --tls-key no.key", "--tls-key no.key: No such file"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    refusal: Callable[..., str], words: str, said: str
) -> None:
    assert said in refusal(*words.split())


def test_files_that_are_not_what_they_should_be_are_refused(
    refusal: Callable[..., str], tmp_path: Path
) -> None:
    pair = issue(CA, HOSTS, NOW)
    certificate, key, ca = (tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt"))
    certificate.write_text(pair.certificate)
    key.write_text(pair.key)
    ca.write_text("no certificate")
    words = ["--tls", "--tls-certificate", str(certificate), "--tls-key", str(key)]
    key.chmod(0o644)
    assert f"--tls-key {key}: everybody can read it. Run: chmod 600" in refusal(*words)
    key.chmod(0o600)
    assert f"--tls-ca {ca}: it has no certificate in PEM" in refusal(*words, "--tls-ca", str(ca))
    certificate.write_text(CA.certificate)
    said = refusal(*words)
    assert "certificate and key cannot be used" in said
    assert "PRIVATE" not in said
