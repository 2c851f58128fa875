"""`holdfast page`: an address while a driver runs, the page itself once nothing does."""

import json
import re
import signal
from pathlib import Path

import httpx
import pytest
from shells import Shell, heard
from waiting import DEADLINE_S

from holdfast.protocol import exitcodes

pytestmark = [pytest.mark.cluster, pytest.mark.warm]

WRONG = """
import sys
print("before", file=sys.stderr)
raise ValueError("<b>the mistake</b>")
"""
WAITS = """
import time
while True:
    time.sleep(0.05)
"""


def address(said: str) -> str:
    found = re.search(r"page (http://127\.0\.0\.1:\d+/\?code=\S+)", said)
    assert found is not None, said
    return found[1]


def test_a_run_that_is_over_is_shown_from_its_folder_until_ctrl_c(shell: Shell) -> None:
    shell.script("wrong.py", WRONG)
    ended = shell.holdfast("run", "--max-restarts", "0", "wrong.py")
    address(ended.stderr)
    name, before = shell.run.name, files(shell.run)
    serving = shell.start("page", f"runs/{name}")
    assert serving.stdout is not None
    url = address(serving.stdout.readline())
    with httpx.Client(base_url=url.partition("/?")[0], trust_env=False) as page:
        assert page.get("/").status_code == 401
        assert f"url=/jobs/{name}" in page.get(url).text
        job = page.get(f"/jobs/{name}").text
        assert "<dd>It is over: Failed after " in job
        assert "<mark>Traceback (most recent call last):</mark>" in job
        assert "ValueError: &lt;b&gt;the mistake&lt;/b&gt;" in job
        assert "Nothing runs here now" in job
        assert '<form method="post"' not in job
        assert "live.js" not in job
        for path in ("/", "/nodes", "/nodes/node-1", "/brake", "/goodput", f"/jobs/{name}/story"):
            assert page.get(path).status_code == 200, path
        (incident,) = re.findall(rf'href="(/jobs/{name}/incidents/\d+)">Incident', job)[:1]
        assert "ValueError" in page.get(incident).text
        assert page.get("/jobs/nobody").status_code == 404
        assert page.get(f"/jobs/{name}/stop").status_code == 404
        assert page.post("/nodes/node-1/evict").status_code == 404
        assert page.get("/", headers={"Host": "evil.example"}).status_code == 421
        assert page.get(url).status_code == 401, "a code is good once"
    serving.send_signal(signal.SIGINT)
    _, said = serving.communicate(timeout=DEADLINE_S)
    assert serving.returncode == exitcodes.OK
    assert said == (
        "nothing runs here now: this is read from what the driver wrote down; Ctrl-C ends it\n"
    )
    assert files(shell.run) == before


def files(folder: Path) -> set[str]:
    return {str(each) for each in folder.rglob("*") if not each.name.startswith("journal.sqlite-")}


def test_a_running_driver_gives_an_address_and_no_log_has_a_code(shell: Shell) -> None:
    shell.script("waits.py", WAITS)
    running = shell.start("run", "waits.py")
    first = address(heard(running, "?code="))
    told = json.loads(shell.asked("page", "--json").stdout)
    assert told["within_s"] == 60
    again = shell.asked("page", shell.run.name).stdout
    urls = [first, told["url"], address(again)]
    with httpx.Client(trust_env=False) as page:
        assert [page.get(url).status_code for url in urls] == [200, 200, 200]
        cookie = next(iter(page.cookies.jar)).value
    running.send_signal(signal.SIGINT)
    running.wait(DEADLINE_S)
    kept = b"".join(each.read_bytes() for each in shell.run.rglob("*") if each.is_file())
    for secret in (*(url.partition("code=")[2] for url in urls), cookie):
        assert str(secret).encode() not in kept


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("page",), "no driver is running here, and there is no run under ./runs."),
        (("page", "nothing"), "RUN: 'nothing' is no run."),
        (("page", "x", "--state", "y"), "RUN is named, and --driver or --state as well."),
        (("page", ""), "RUN: it is empty."),
    ],
)
def test_what_is_no_run_is_refused_in_a_sentence(
    shell: Shell, words: tuple[str, ...], said: str
) -> None:
    told = shell.asked(*words)
    assert told.returncode != 0
    (line,) = told.stderr.splitlines()
    assert line.startswith(f"holdfast: {said}")
