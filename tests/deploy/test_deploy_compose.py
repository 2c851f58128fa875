"""docker-compose.yml and the Dockerfiles, as far as they can be tried without Docker.

Images are not built here. What their containers run is: the same words, in another folder.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml
from waiting import eventually

ROOT = Path(__file__).parents[2]
STATE = "/var/lib/holdfast"
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def dockerfile(service: str) -> str:
    return (ROOT / str(SERVICES[service]["build"]["dockerfile"])).read_text()


def words_of(service: str, state: Path) -> list[str]:
    """What the container runs, with this Python, `state` and a free port."""
    entry: list[str] = []
    for line in dockerfile(service).splitlines():
        if line.startswith("ENTRYPOINT "):
            entry = json.loads(line.removeprefix("ENTRYPOINT "))
    words = [*entry, *SERVICES[service]["command"]]
    assert words[0] == "python"
    told = [
        word.replace(STATE, str(state)).replace("0.0.0.0:7700", "127.0.0.1:0") for word in words
    ]
    return [sys.executable, *told[1:]]


@contextmanager
def running(words: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as out, subprocess.Popen(words, stdout=out, stderr=out) as process:
        try:
            yield
        finally:
            process.terminate()


def test_what_the_containers_run_is_a_cluster_that_runs_a_job(tmp_path: Path) -> None:
    state = tmp_path / "state"
    holdfast = [sys.executable, "-m", "holdfast.cli", "--state", str(state)]
    job = tmp_path / "job.yaml"
    spec = {"nodes": 2, "command": ["sh", "-c", "true"], "workdir": str(tmp_path)}
    job.write_text(json.dumps({"metadata": {"name": "short"}, "spec": spec}))

    def told(*words: str) -> str:
        done = subprocess.run([*holdfast, *words], capture_output=True, text=True, check=False)
        return done.stdout

    with ExitStack() as up:
        up.enter_context(running(words_of("driver", state), tmp_path / "driver.log"))
        eventually((state / "tokens" / "node").exists, "the driver has made its tokens")
        eventually((state / "driver.sock").exists, "the driver answers")
        up.enter_context(running(words_of("nodes", state), tmp_path / "nodes.log"))
        eventually(lambda: '"node-4"' in told("nodes", "--json"), "all four nodes are there")
        told("submit", str(job))
        eventually(lambda: '"Succeeded"' in told("status", "short", "--json"), "it succeeds")


def test_only_the_driver_goes_without_torch_and_nobody_is_root() -> None:
    assert "[kubernetes,postgres]" in dockerfile("driver")
    assert "torch" not in dockerfile("driver").partition("\n")[2]
    assert "[train]" in dockerfile("nodes")
    for service in SERVICES:
        assert "USER 10001:10001" in dockerfile(service).splitlines()


def test_the_context_has_all_that_is_installed_and_no_environment() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for link in (ROOT / "src" / "holdfast").iterdir():
        if link.is_symlink():
            assert os.readlink(link).split("/")[-1] not in ignored
    assert ".venv*" in ignored
    assert ".git" in ignored
