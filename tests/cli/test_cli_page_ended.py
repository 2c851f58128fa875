"""The page of a run that is over: pictures of its ranks, its curves, and a trace for Perfetto."""

import re

import httpx
import pytest
from shells import Shell
from tests.cli.test_cli_page import address

from holdfast.protocol.paths import RunPaths

pytestmark = [pytest.mark.cluster, pytest.mark.warm]

TRAIN = """
import time
from holdfast import telemetry
for step in range(1, 60):
    time.sleep(0.05)
    telemetry.step(step, loss=3 / step)
"""


def test_what_ranks_did_last_is_drawn_and_said_from_the_folder(shell: Shell) -> None:
    shell.script("train.py", TRAIN)
    ended = shell.holdfast("run", "-n", "2", "train.py")
    assert ended.returncode == 0, ended.stderr
    name = shell.run.name
    serving = shell.start("page", f"runs/{name}")
    assert serving.stdout is not None
    url = address(serving.stdout.readline())
    with httpx.Client(base_url=url.partition("/?")[0], trust_env=False) as page:
        page.get(url)
        job = page.get(f"/jobs/{name}").text
        of_curves(job)
        of_pictures(page, name, job)
        trace = page.get(f"/jobs/{name}/trace")
        assert trace.headers["content-disposition"].endswith(f"{name}.pftrace")
        assert len(trace.content) > 1_000
    whole = shell.asked("trace", "export", name, "--perfetto", "whole.pftrace")
    assert whole.returncode == 0, whole.stderr
    assert (shell.folder / "whole.pftrace").read_bytes() == trace.content


def of_curves(job: str) -> None:
    told = job[job.index('id="curves"') :]
    assert re.search(r"<b>Loss</b> 0\.0\d+ at last;", told)
    assert re.search(r"<b>Memory of the rank that has most</b> \d+", told)
    assert "<path d=" in told


def of_pictures(page: httpx.Client, name: str, job: str) -> None:
    assert "views.js" not in job
    assert "holdfast view3d" not in job
    assert "Ranks: 2 " in job
    for view in ("heatmap", "timeline", "view3d"):
        assert f'src="/jobs/{name}/{view}.svg"' in job
        light, dark = (page.get(f"/jobs/{name}/{view}.svg{query}") for query in ("", "?dark=1"))
        assert light.headers["content-type"].startswith("image/svg+xml")
        assert light.text.startswith("<svg")
        assert light.text != dark.text
    assert page.get(f"/jobs/{name}/other.svg").status_code == 404


def test_without_traces_the_page_says_that_nothing_tells(shell: Shell) -> None:
    shell.script("wrong.py", "raise ValueError('at once')")
    shell.holdfast("run", "--max-restarts", "0", "wrong.py")
    name = shell.run.name
    for each in RunPaths(shell.run).traces(name).glob("*"):
        each.unlink()
    serving = shell.start("page", f"runs/{name}")
    assert serving.stdout is not None
    url = address(serving.stdout.readline())
    with httpx.Client(base_url=url.partition("/?")[0], trust_env=False) as page:
        page.get(url)
        job = page.get(f"/jobs/{name}").text
        assert "No traces of it are kept, so nothing tells what each rank did." in job
        assert "/trace" not in job
        assert page.get(f"/jobs/{name}/trace").status_code == 404
