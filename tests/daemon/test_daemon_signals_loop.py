"""The loop of signals against answers that no API server and no exporter should give."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog
from authorities import CA, WallClock
from waiting import DEADLINE_S, eventually_async

from holdfast.daemon.signals import loop, node
from holdfast.daemon.signals.loop import Signals
from holdfast.daemon.signals.settings import Settings
from holdfast.protocol.version import FIELD_MANAGER
from holdfast.protocol.xids import HARDWARE_FAULT, XID_ERRORS

NODE = b'{"status": {"conditions": []}}'
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1\n"


class Answer(NamedTuple):
    status: int
    body: bytes


class Server:
    """Both of them: gives the answers in line, then the last one again, and keeps what it got."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = deque(answers)
        self.got: list[tuple[str, bytes]] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = head.partition("content-length: ")[2].partition("\r\n")[0]
            self.got.append((head, await reader.readexactly(int(length or 0))))
            answer = self.answers.popleft() if len(self.answers) > 1 else self.answers[0]
            said = f"HTTP/1.1 {answer.status} Words\r\nContent-Length: {len(answer.body)}\r\n"
            writer.write(said.encode() + b"Connection: close\r\n\r\n" + answer.body)
            await writer.drain()
        writer.close()

    def written(self) -> dict[str, str]:
        """Status of each condition that was patched, by type."""
        bodies = [json.loads(body) for _, body in self.got]
        made = (each for body in bodies if body for each in body["status"]["conditions"])
        return {each["type"]: each["status"] for each in made}


@pytest.fixture
async def servers() -> AsyncIterator[tuple[Server, Server]]:
    """An API server and an exporter."""
    made = Server(Answer(200, NODE)), Server(Answer(200, b""))
    listening = [await asyncio.start_server(each.serve, "127.0.0.1", 0) for each in made]
    for each, at in zip(made, listening, strict=True):
        each.url = f"http://127.0.0.1:{at.sockets[0].getsockname()[1]}"
    yield made
    for at in listening:
        at.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_S", "BASE_S", "CAP_S", "DCGM_EVERY_S"):
        monkeypatch.setattr(loop, name, 0.01)
    monkeypatch.setattr(loop, "DCGM_TIMEOUT_S", DEADLINE_S)
    monkeypatch.setattr(node, "TIMEOUT_S", DEADLINE_S)


def settings(folder: Path, api: Server, **more: Any) -> Settings:
    (folder / "ca.crt").write_text(CA.certificate)
    (folder / "token").write_text("secret\n")
    (folder / "kernel.log").touch()
    said = {"kernel_log": folder / "kernel.log", "boot": "b", "account": folder, **more}
    return Settings(node="node-1", api_server=api.url, **said)


class Running:
    """Signals in this process, for as long as a `with`, and what they log."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.logged: list[Any] = []

    async def __aenter__(self) -> "Running":
        self._capturing = structlog.testing.capture_logs()
        self.logged = self._capturing.__enter__()
        self._task = asyncio.create_task(Signals(self._settings, WallClock()).run())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._capturing.__exit__(None, None, None)
        assert not self._task.done(), "it never ends by itself"
        self._task.cancel()
        await asyncio.wait([self._task])

    def troubles(self) -> list[str]:
        return [each["why"] for each in self.logged if each["event"] == "signals in trouble"]


@pytest.mark.usefixtures("quick")
async def test_it_goes_on_trying_whatever_is_answered_and_says_each_trouble_once(
    servers: tuple[Server, Server], tmp_path: Path
) -> None:
    api, _ = servers
    forbidden = b'{"message": "nodes \\"node-1\\" is forbidden: no"}'
    api.answers = deque(
        [
            Answer(403, forbidden),
            Answer(403, forbidden),
            Answer(502, b"<html>" + b"\xff" * 9),
            Answer(200, b"hello"),
            Answer(200, b'{"status": {"conditions": [{"type": 3}]}}'),
            Answer(302, b""),
            Answer(200, NODE),
        ]
    )
    async with Running(settings(tmp_path, api)) as running:
        await eventually_async(api.written, "it is told in the end")
        assert api.written() == {HARDWARE_FAULT: "False", XID_ERRORS: "False"}
        troubles = running.troubles()
    assert troubles[:2] == [
        'the API server refuses (403): nodes "node-1" is forbidden: no. '
        "Apply deploy/kubernetes/overlays/node-signals anew.",
        "the API server refuses (502): Words.",
    ]
    assert len(troubles) == 5
    assert {"is no API server" in each for each in troubles[2:4]} == {True}
    head = api.got[-1][0]
    assert "authorization: bearer secret\r\n" in head
    assert "content-type: application/strategic-merge-patch+json\r\n" in head
    assert f"/status?fieldmanager={FIELD_MANAGER} http/1.1\r\n" in head
    assert "user-agent: holdfast-node-signals\r\n" in head
    assert "secret" not in json.dumps(running.logged)


@pytest.mark.usefixtures("quick")
async def test_an_account_that_is_not_there_yet_is_said_and_taken_when_it_is(
    servers: tuple[Server, Server], tmp_path: Path
) -> None:
    api, _ = servers
    given = settings(tmp_path, api)
    (tmp_path / "token").unlink()
    async with Running(given) as running:
        await eventually_async(running.troubles, "it is said")
        assert "the service account cannot be used: " in running.troubles()[0]
        (tmp_path / "token").write_text("secret")
        await eventually_async(api.written, "it is told")


@pytest.mark.usefixtures("quick")
async def test_what_dcgm_says_of_this_node_is_told_and_of_another_it_is_only_logged(
    servers: tuple[Server, Server], tmp_path: Path
) -> None:
    api, exporter = servers
    said = b'DCGM_FI_DEV_XID_ERRORS{gpu="1",Hostname="%s"} 79\n'
    exporter.answers = deque(
        [Answer(500, b""), Answer(200, b"\xff{"), Answer(200, said % b"node-2")]
    )
    async with Running(settings(tmp_path, api, dcgm=exporter.url)) as running:
        await eventually_async(lambda: len(running.troubles()) == 3, "each is said")
        assert running.troubles()[2].endswith("it speaks of node-2, not of node-1")
        await eventually_async(api.written, "the start is told")
        assert api.written()[HARDWARE_FAULT] == "False"
        exporter.answers = deque([Answer(200, said % b"node-1")])
        await eventually_async(lambda: api.written()[HARDWARE_FAULT] == "True", "it is told")
        assert running.logged[-1]["event"] in ("condition told", "signals well")


@pytest.mark.usefixtures("quick")
async def test_nothing_is_asked_of_the_api_server_while_nothing_is_new(
    servers: tuple[Server, Server], tmp_path: Path
) -> None:
    api, _ = servers
    async with Running(settings(tmp_path, api)):
        await eventually_async(lambda: len(api.got) == 2, "it has looked and told")
        with (tmp_path / "kernel.log").open("a") as log:
            log.write(XID.replace("79", "31") * 3 + XID)
        await eventually_async(lambda: len(api.got) == 4, "it has looked and told of the fault")
        with (tmp_path / "kernel.log").open("a") as log:
            log.write(XID * 1_000 + XID.replace("79", "74"))
        await eventually_async(lambda: api.written()[XID_ERRORS] == "True", "the last is told")
    assert len(api.got) == 6, "a storm of the same is one fault"
