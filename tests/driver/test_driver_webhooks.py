"""Webhooks: what is sent, signed how, tried how often, and that nothing of it is lost."""

import json
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from receiving import Receiver, receiver
from running_driver import DriverProcess
from waiting import eventually_async

from holdfast.cli.main import main
from holdfast.client import Client, Refused
from holdfast.driver.follow.webhooks import file
from holdfast.driver.follow.webhooks.messages import message, words
from holdfast.driver.noted import Turned
from holdfast.driver.ports import PermanentError
from holdfast.protocol import webhooks

SECRET = b"a secret that nobody guesses"


def job(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"nodes": 9, "command": ["x"], "workdir": "/"}}


class Told:
    """A driver that tells receivers, as often as it is started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._secret = folder / "secret"
        self._secret.write_bytes(SECRET + b"\n")
        self._hooks: list[dict[str, Any]] = []
        self.process = DriverProcess(folder / "state", "--webhooks", str(folder / "hooks.yaml"))

    def tells(self, name: str, to: Receiver, **more: Any) -> None:
        place = self._folder / f"{name}.url"
        place.write_text(f"{to.url}\n")
        hook = {"name": name, "urlFile": str(place), "secretFile": str(self._secret), **more}
        self._hooks.append(hook)

    async def start(self) -> Client:
        (self._folder / "hooks.yaml").write_text(yaml.safe_dump({"webhooks": self._hooks}))
        await self.process.start()
        return Client(state=self.process.paths.root)


@pytest.fixture
async def told(tmp_path: Path) -> AsyncIterator[Told]:
    made = Told(tmp_path)
    yield made
    if made.process.process is not None:
        made.process.end()


async def test_what_turns_is_told_signed_and_no_secret_is_logged(told: Told) -> None:
    with receiver() as hook, receiver() as chat:
        told.tells("on-call", hook)
        told.tells("chat", chat, format="slack", on=["brake"])
        client = await told.start()
        client.submit(job("speech"))
        client.stop("speech")
        client.apply_brake(reason="<!channel> we rewire")
        await eventually_async(lambda: len(hook.taken) == 3 and len(chat.taken) == 1)
    turns = [(each["what"], each["name"], each["before"], each["now"]) for each in hook.taken]
    assert turns == [
        ("job", "speech", "", "Pending"),
        ("job", "speech", "Pending", "Stopped"),
        ("brake", "", "off", "on"),
    ]
    said = "the brake is on: a person: &lt;!channel&gt; we rewire"
    assert chat.taken == [{"text": said}]
    for headers, body in hook.came:
        header = headers[webhooks.SIGNATURE]
        assert webhooks.verified(SECRET, header, body, now_s=time.time())
        assert not webhooks.verified(SECRET, header, body + b" ", now_s=time.time())
        assert not webhooks.verified(SECRET, header, body, now_s=time.time() + 301)
        assert headers[webhooks.DELIVERY] == json.loads(body)["id"]
    log = told.process.log.read_text()
    assert "hush-hush" not in log
    assert SECRET.decode() not in log


async def test_what_is_answered_with_500_is_sent_again_and_the_rest_waits_for_it(
    told: Told,
) -> None:
    with receiver(lambda number: 500 if number <= 2 else 200) as hook:
        told.tells("on-call", hook)
        client = await told.start()
        client.submit(job("one"))
        client.submit(job("two"))
        await eventually_async(lambda: len(hook.taken) == 2)
    first, second = hook.ids()
    assert [json.loads(body)["id"] for _, body in hook.came] == [first, first, first, second]
    (health,) = client.webhooks()
    assert (health.sent, health.given_up, health.trouble) == (2, 0, "")


async def test_one_that_never_answers_keeps_neither_the_driver_nor_the_others_waiting(
    told: Told,
) -> None:
    with receiver() as quick, receiver() as dead:
        dead.answers = lambda _: (dead.let_go.wait() and 200) or 200
        told.tells("dead", dead)
        told.tells("quick", quick)
        client = await told.start()
        client.submit(job("speech"))
        await eventually_async(lambda: len(quick.taken) == 1)
        await eventually_async(lambda: len(dead.came) == 1)
        for number in range(5):
            client.submit(job(f"job-{number}"))
        await eventually_async(lambda: len(quick.taken) == 6)
        assert (len(dead.came), dead.taken) == (1, []), "all that while it has the first alone"
        told.process.end()


async def test_a_driver_that_is_killed_while_one_is_slow_loses_nothing(told: Told) -> None:
    with receiver() as slow:
        slow.answers = lambda number: (slow.let_go.wait() and 200) or 200 if number == 2 else 200
        told.tells("slow", slow)
        client = await told.start()
        client.submit(job("one"))
        await eventually_async(lambda: len(slow.taken) == 1)
        client.submit(job("two"))
        await eventually_async(lambda: len(slow.came) == 2)
        client.submit(job("three"))
        told.process.end(signal.SIGKILL)
        await told.start()
        await eventually_async(lambda: len(slow.taken) >= 3)
    names = [each["name"] for each in slow.taken]
    assert names.count("one") == 1, "what was taken, and noted, is not sent again"
    assert list(dict.fromkeys(names))[-1] == "three"
    assert set(names) == {"one", "two", "three"}


async def test_a_test_says_whether_it_was_taken(
    told: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    with receiver(lambda number: 200 if number == 1 else 403) as hook:
        told.tells("on-call", hook)
        client = await told.start()
        where = ["--state", str(told.process.paths.root)]
        assert main(["webhook", "test", "on-call", *where]) == 0
        assert main(["webhook", *where]) == 0
        said = capsys.readouterr().out
        assert "on-call took an example" in said
        assert "hush-hush" not in said
        with pytest.raises(Refused, match="webhook on-call: it refuses: HTTP 403"):
            client.test_webhook("on-call")
        with pytest.raises(Refused, match="Did you mean on-call"):
            client.test_webhook("on-cal")
    assert hook.ids() == ["test"]


async def test_what_a_receiver_refuses_for_ever_is_given_up_and_the_next_is_told(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver(lambda number: 400 if number <= 5 else 200) as hook:
        told.tells("on-call", hook)
        client = await told.start()
        client.submit(job("one"))
        client.submit(job("two"))
        await eventually_async(lambda: len(hook.taken) == 1)
    assert hook.taken[0]["name"] == "two"
    (health,) = client.webhooks()
    assert (health.sent, health.given_up) == (1, 1)


async def test_a_proxy_that_httpx_does_not_know_ends_no_driver(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "foo://127.0.0.1:9")
    with receiver() as hook:
        told.tells("on-call", hook)
        client = await told.start()
        client.submit(job("speech"))
        await eventually_async(lambda: client.webhooks()[0].trouble != "")
        with pytest.raises(Refused, match="look at the driver's HTTPS_PROXY, ALL_PROXY"):
            client.test_webhook("on-call")


# ---------------------------------------------------------------- the file


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ({"url": "http://a/"}, "webhooks[0].name: it is missing"),
        ({"name": "a"}, "webhooks[0]: it needs one address.  Give url, or urlFile"),
        ({"name": "a", "url": "ftp://a"}, "webhooks[0].url: 'ftp://a' is no address.  Give"),
        ({"name": "a", "url": "http://a:99999/"}, "webhooks[0].url: 'http://a:99999/' is no"),
        ({"name": "a", "url": "http://[::1"}, "webhooks[0].url: 'http://[::1' is no address."),
        ({"name": "a", "url": "http://a/", "secret": "x"}, "webhooks[0].secret: there is no field"),
        ({"name": "a", "url": "http://a/", "on": ["jobs"]}, "webhooks[0].on[0]: "),
        ({"name": "a", "url": "http://a/", "secretFile": "/nowhere"}, "webhooks[0].secretFile: "),
    ],
)
def test_mistakes_are_told_by_field(tmp_path: Path, hook: dict[str, Any], said: str) -> None:
    path = tmp_path / "hooks.yaml"
    path.write_text(yaml.safe_dump({"webhooks": [hook]}))
    with pytest.raises(PermanentError) as wrong:
        file.read(path)
    assert f"--webhooks {path}: {said}" in str(wrong.value)


def test_the_file_in_the_docs_is_read_as_it_stands_there(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()
    text = page.split("```yaml\n")[1].split("```")[0]
    for name, said in (("on-call.secret", "sixteen bytes or more"), ("chat.url", "https://a/b")):
        (tmp_path / name).write_text(said)
        text = text.replace(f"/etc/holdfast/{name}", str(tmp_path / name))
    path = tmp_path / "hooks.yaml"
    path.write_text(text)
    first, second = file.read(path)
    assert first.on == ("incident", "node", "brake")
    assert second.phases == ("Failed", "Succeeded")


@pytest.mark.parametrize("text", ["", "webhooks: [", "[]", "webhooks: 7", "\x00"])
def test_what_is_no_such_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hooks.yaml"
    path.write_text(text)
    with pytest.raises(PermanentError, match="--webhooks"):
        file.read(path)


def test_a_secret_that_is_no_address_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("hush-hush")
    path = tmp_path / "hooks.json"
    path.write_text(json.dumps({"webhooks": [{"name": "a", "urlFile": str(tmp_path / "url")}]}))
    with pytest.raises(PermanentError) as wrong:
        file.read(path)
    assert "hush-hush" not in str(wrong.value)


def test_a_driver_does_not_start_with_a_wrong_file(tmp_path: Path) -> None:
    (tmp_path / "hooks.yaml").write_text("webhooks: [{name: a}]")
    process = DriverProcess(tmp_path / "state", "--webhooks", str(tmp_path / "hooks.yaml"))
    assert process.spawn().wait(60) == 78
    assert "it needs one address" in process.log.read_text()


# ---------------------------------------------------------------- pure


@given(st.binary(min_size=1), st.binary(), st.integers(0, 10**10))
def test_only_who_has_the_secret_can_sign(secret: bytes, body: bytes, now: int) -> None:
    header = webhooks.signature(secret, body, now_s=now)
    assert webhooks.verified(secret, header, body, now_s=now)
    assert not webhooks.verified(secret + b"x", header, body, now_s=now)
    assert not webhooks.verified(secret, header.replace("t=", "t=1"), body, now_s=now)


@given(st.text(max_size=40))
def test_any_header_can_be_asked_about(header: str) -> None:
    assert not webhooks.verified(b"secret", header, b"", now_s=0.0)


def test_words_are_a_sentence_and_the_id_is_the_same_each_time() -> None:
    turned = Turned(what="incident", name="3", now="found", why="node-4 is lost", jobs=("a", "b"))
    assert words(turned) == "incident 3 of a, b is found: node-4 is lost"
    hook = file.Webhook(name="a", url="http://a/")
    assert message(hook, turned, id="7.0", at="") == message(hook, turned, id="7.0", at="")
