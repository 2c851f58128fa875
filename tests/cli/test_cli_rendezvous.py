"""Whole runs whose ranks meet in a Redis, and one that does not say where."""

import json
import os
import sys
from collections.abc import Iterator

import pytest
from redis_server import redis_server
from shells import Shell

from holdfast.cli.run.options import Options, meets_elsewhere
from holdfast.cli.status import lines_of
from holdfast.lab.redis import Redis
from holdfast.page import status
from holdfast.protocol import exitcodes
from holdfast.protocol.collectives import environment

pytestmark = [pytest.mark.cluster, pytest.mark.torch, pytest.mark.warm]

MEETS = """
import json, os, pathlib
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
pair = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
total = torch.ones(1)
dist.all_reduce(total)
dist.all_reduce(total, group=pair)
told = {name: os.environ.get(name) for name in os.environ["ASKED"].split()}
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
pathlib.Path(f"rank-{rank}-{attempt}.json").write_text(json.dumps(told | {"total": total.item()}))
dist.destroy_process_group()
if rank == 0 and attempt == "0":
    raise SystemExit("once more")
"""


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    pytest.importorskip("torch")
    with redis_server() as server:
        yield server


def asked_for(shell: Shell) -> dict[str, str]:
    """What ranks are told, for they were asked to write it down."""
    expected = environment()
    shell.told = {"ASKED": " ".join(expected)}
    return expected


def test_ranks_meet_in_redis_with_few_questions_and_again_after_a_restart(
    shell: Shell, redis: Redis
) -> None:
    import redis as client

    expected = asked_for(shell)
    shell.script("meets.py", MEETS)
    with client.Redis.from_url(redis.url, decode_responses=True) as seen:
        seen.config_resetstat()
        done = shell.holdfast("run", "-n", "4", "--rendezvous", redis.url, "meets.py")
        assert done.returncode == 0, done.stderr
        waits = seen.info("commandstats")["cmdstat_blmove"]["calls"]
        left = [key for key in seen.scan_iter() if ":k:" in key]
    for rank in range(4):
        told = json.loads((shell.folder / f"rank-{rank}-1.json").read_text())
        assert told == expected | {"total": 8.0}
    assert waits == 2 * 4 * (1 + 2), "each attempt and rank: the world in one, the pair in two"
    assert left
    assert len({key.partition(":k:")[0] for key in left}) == 1, "nothing is left of the first"
    told = json.loads(shell.asked("status", "--json").stdout)
    assert (told["rendezvous"], told["communication"]) == (redis.url, expected)


def test_by_themselves_they_meet_on_the_first_node_and_are_told_the_same(shell: Shell) -> None:
    pytest.importorskip("torch")
    expected = asked_for(shell)
    shell.script("meets.py", MEETS)
    assert shell.holdfast("run", "-n", "4", "meets.py").returncode == 0
    told = json.loads((shell.folder / "rank-3-1.json").read_text())
    assert told == expected | {"total": 8.0}


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://h", "this is no Redis where ranks could meet."),
        ("redis://u:secret@h", "a password has no place in a URL"),
        ("redis://127.0.0.1:9/0", "does not answer as a Redis does"),
    ],
)
def test_where_ranks_cannot_meet_nothing_is_started(shell: Shell, url: str, said: str) -> None:
    shell.script("meets.py", MEETS)
    done = shell.holdfast("run", "-n", "2", "--rendezvous", url, "meets.py")
    assert done.returncode == exitcodes.USAGE, done.stderr
    assert done.stderr.startswith("holdfast: --rendezvous: ")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "secret" not in done.stderr
    assert os.listdir(shell.folder) == ["meets.py"]


def test_status_shows_where_they_meet_and_what_they_are_told_otherwise_than_others() -> None:
    usual = {"rendezvous": "", "communication": environment()}
    assert lines_of(status.meets(usual)) == []
    assert lines_of(status.meets({})) == [], "a driver of before"
    other = {"rendezvous": "redis://h:6379/0", "communication": environment(large=False)}
    assert lines_of(status.meets(other)) == [
        "meets   redis://h:6379/0 · no CUDA_DEVICE_MAX_CONNECTIONS · no NCCL_P2P_NET_CHUNKSIZE · "
        "no TORCH_NCCL_HIGH_PRIORITY"
    ]


def test_who_starts_python_by_a_shell_is_told_that_its_ranks_meet_elsewhere() -> None:
    by_shell, url = ("bash", "-c", "python train.py"), "redis://h:6379/0"
    told = meets_elsewhere(Options(command=by_shell, ranks=2, rendezvous=url))
    assert told.startswith("--rendezvous: what is no script of this Python meets at MASTER_ADDR")
    assert meets_elsewhere(Options(command=by_shell, ranks=2)) == ""
    script = (sys.executable, "train.py")
    assert meets_elsewhere(Options(command=script, ranks=2, rendezvous=url)) == ""
