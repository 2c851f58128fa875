"""The port for probes: it answers from the start, tells readiness, and does not wait for nodes."""

import asyncio
import json
import signal
import socket
from pathlib import Path

import httpx
import pytest
from running_driver import DriverProcess
from starlette.types import Receive, Scope, Send
from waiting import DEADLINE_S

from holdfast.driver.main import main
from holdfast.driver.serve.probes import probed
from holdfast.driver.serve.server import Server
from holdfast.protocol import exitcodes

CROWD = 640
"""Twenty turns' worth: the probe is answered in the third."""


def listening() -> tuple[socket.socket, str]:
    made = socket.create_server(("127.0.0.1", 0))
    return made, f"http://127.0.0.1:{made.getsockname()[1]}"


async def test_it_lives_before_it_is_ready_and_says_why_it_is_not() -> None:
    at, url = listening()
    async with (
        probed(at) as readiness,
        httpx.AsyncClient(trust_env=False, verify=False, timeout=DEADLINE_S) as client,
    ):
        assert (await client.get(f"{url}/healthz")).text == "ok\n"
        starting = await client.get(f"{url}/readyz")
        assert starting.status_code == 503
        why = "this driver starts, or stands by"
        assert starting.json() == {"ready": False, "why": why, "stale": False}
        assert (await client.get(f"{url}/ablez")).status_code == 503
        readiness.able = True
        assert (await client.get(f"{url}/ablez")).json() == {"able": True}
        readiness.why = lambda: None
        readiness.away = lambda: "no nodes are known"
        ready = await client.get(f"{url}/readyz")
        assert (ready.status_code, ready.json()["why"]) == (200, "no nodes are known")
        assert (await client.get(f"{url}/v1alpha1/jobs")).status_code == 404
        port = at.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


async def test_a_probe_is_answered_while_a_crowd_is_let_in() -> None:
    """Of those who were before it in the queue of the other port, some wait still."""
    served = 0

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal served
        served += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    crowd_at, _ = listening()
    crowd_at.listen(2 * CROWD)
    crowd = []
    for _ in range(CROWD):
        each = socket.create_connection(crowd_at.getsockname())
        each.sendall(b"GET / HTTP/1.1\r\nHost: driver\r\n\r\n")
        crowd.append(each)
    at, _ = listening()
    async with probed(at):
        probe = socket.create_connection(at.getsockname())
        probe.sendall(b"GET /healthz HTTP/1.1\r\nHost: driver\r\nConnection: close\r\n\r\n")
        reader, writer = await asyncio.open_connection(sock=probe)
        server = Server(slow)
        serving = asyncio.create_task(server.serve([crowd_at]))
        try:
            said = await asyncio.wait_for(reader.read(), DEADLINE_S)
            assert said.endswith(b"ok\n")
            assert served < CROWD
        finally:
            server.should_exit = True
            await serving
            writer.close()
            for each in crowd:
                each.close()


async def test_a_driver_answers_there_what_it_answers_people(tmp_path: Path) -> None:
    driver = DriverProcess(tmp_path / "run", "--probes", "127.0.0.1:0")
    try:
        where = await driver.start()
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=DEADLINE_S) as client:
            answers = [await client.get(f"{where[at]}/readyz") for at in ("http", "probes")]
        assert answers[0].json() == answers[1].json()
        assert json.loads(driver.paths.address.read_bytes())["probes"] == where["probes"]
    finally:
        driver.end(signal.SIGKILL)


def test_a_port_that_is_taken_is_told_by_its_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.driver.process.set_up_logs", lambda *_, **__: None)
    taken, url = listening()
    with taken:
        address = url.removeprefix("http://")
        code = main(["--state", str(tmp_path / "run"), "--probes", address])
    assert code == exitcodes.CONFIGURATION
    assert f"probes {address}: Address already in use. Give another with" in capsys.readouterr().err
