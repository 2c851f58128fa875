"""docker-compose.yml, as far as it can be tried without Docker.

What its containers run is: the same words, in another folder.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from postgres import running_postgres
from waiting import eventually

from holdfast.protocol.jobcheck import check as check_spec

ROOT = Path(__file__).parents[2]

STATE = "/var/lib/holdfast"
JOURNAL = "postgresql://holdfast@postgres/holdfast"
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def dockerfile(service: str) -> str:
    return (ROOT / str(SERVICES[service]["build"]["dockerfile"])).read_text()


def words_of(service: str, state: Path, journal: str = "") -> list[str]:
    """What the container runs, with this Python, `state`, `journal` and a free port."""
    entry: list[str] = []
    for line in dockerfile(service).splitlines():
        if line.startswith("ENTRYPOINT "):
            entry = json.loads(line.removeprefix("ENTRYPOINT "))
    return here([*entry, *SERVICES[service]["command"]], state, journal)


def here(words: list[str], state: Path, journal: str = "") -> list[str]:
    """What a container runs, as it is run here."""
    assert words[0] == "python"
    ours = {STATE: str(state), "0.0.0.0:7700": "127.0.0.1:0", JOURNAL: journal}
    for told, own in ours.items():
        words = [word.replace(told, own) for word in words]
    return [sys.executable, *words[1:]]


@contextmanager
def running(words: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as out, subprocess.Popen(words, stdout=out, stderr=out) as process:
        try:
            yield
        finally:
            process.terminate()


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where the container `postgres` would have it; its password is in the environment."""
    with running_postgres() as server:
        monkeypatch.setenv("PGPASSWORD", server.password)
        yield server.url(server.new_database(), port=server.port)


def test_what_the_containers_run_is_a_cluster_that_runs_a_job(tmp_path: Path, journal: str) -> None:
    assert JOURNAL in SERVICES["driver"]["command"]
    assert "PGPASSWORD" in SERVICES["driver"]["environment"]
    state = tmp_path / "state"
    holdfast = [sys.executable, "-m", "holdfast.cli"]
    spec = {"nodes": 2, "command": ["sh", "-c", "echo hello"], "workdir": str(tmp_path)}
    job = json.dumps({"metadata": {"name": "short"}, "spec": spec})
    assert SERVICES["driver"]["environment"]["HOLDFAST_STATE"] == STATE
    told_state = {**os.environ, "HOLDFAST_STATE": str(state)}

    def told(*words: str, typed: str = "") -> str:
        run = partial(subprocess.run, capture_output=True, text=True, check=False, env=told_state)
        return str(run([*holdfast, *words], input=typed).stdout)

    def healthy(service: str) -> bool:
        _, *words = SERVICES[service]["healthcheck"]["test"]
        return subprocess.run(here(words, state), capture_output=True, check=False).returncode == 0

    with ExitStack() as up:
        up.enter_context(running(words_of("driver", state, journal), tmp_path / "driver.log"))
        eventually((state / "tokens" / "node").exists, "the driver has made its tokens")
        eventually((state / "driver.sock").exists, "the driver answers")
        assert not healthy("nodes")
        up.enter_context(running(words_of("nodes", state), tmp_path / "nodes.log"))
        eventually(lambda: healthy("nodes"), "the nodes' container is healthy")
        eventually(lambda: '"node-4"' in told("nodes", "--json"), "all four nodes are there")
        told("submit", "-", typed=job)
        eventually(lambda: '"Succeeded"' in told("status", "short", "--json"), "it succeeds")
        assert told("logs", "short", "--rank", "1") == "hello\n"


def test_compose_can_wait_for_all_that_it_starts() -> None:
    """`up --wait` returns once nodes can be asked for, and not seconds before."""
    always = {name: each for name, each in SERVICES.items() if "profiles" not in each}
    assert not [name for name, each in always.items() if "healthcheck" not in each]


def test_without_a_profile_comes_what_holdfast_needs_and_only_its_port_is_published() -> None:
    always = {name for name, service in SERVICES.items() if "profiles" not in service}
    assert always == {"driver", "postgres", "nodes"}
    needed = {each for name in always for each in SERVICES[name].get("depends_on", ())}
    assert needed <= always
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"driver": ["127.0.0.1:7700:7700"]}


def test_the_parts_of_hdfs_know_each_other() -> None:
    hdfs = {name: each for name, each in SERVICES.items() if each.get("profiles") == ["hdfs"]}
    assert {each["hostname"] for each in hdfs.values()} == hdfs.keys() == {"namenode", "datanode"}
    told = {each["environment"]["CORE-SITE.XML_fs.defaultFS"] for each in hdfs.values()}
    assert told == {"hdfs://namenode:8020"}


def test_the_nodes_of_kind_stand_in_racks() -> None:
    cluster = yaml.safe_load((ROOT / "deploy" / "kind" / "cluster.yaml").read_text())
    labels = [node["labels"] for node in cluster["nodes"] if node["role"] == "worker"]
    assert len({each["topology.holdfast.dev/rack"] for each in labels}) == 2


def test_what_the_page_says_to_type_is_there() -> None:
    page = (ROOT / "docs" / "compose.md").read_text()
    typed = [
        line.partition("#")[0]
        for line in page.splitlines()
        if line.startswith("docker compose exec")
    ]
    assert {line.split()[line.split().index("holdfast") + 1] for line in typed} == {
        *("nodes", "submit", "status"),
    }
    sample = next(part for part in page.split("```\n") if part.startswith("apiVersion:"))
    check_spec(yaml.safe_load(sample))
    head = (ROOT / "docker-compose.yml").read_text().partition("services:")[0]
    for line in head.splitlines():
        if line.startswith("#   "):
            assert line.removeprefix("#   ") in page


def test_the_folder_that_the_page_has_made_is_the_one_that_its_job_names() -> None:
    page = (ROOT / "docs" / "compose.md").read_text()
    (made,) = re.findall(r"^mkdir .* (\w+) +#", page, re.MULTILINE)
    seen = dict(re.findall(r"sees `(\S+)` as `(\S+)`", page))
    sample = next(part for part in page.split("```\n") if part.startswith("apiVersion:"))
    assert seen == {f"./{made}": yaml.safe_load(sample)["spec"]["workdir"]}
    mounted = [volume.partition(":")[::2] for volume in SERVICES["nodes"]["volumes"]]
    assert [each for each in mounted if each[0].startswith(".")] == [*seen.items()]
